"""Models of other programs, converted to model folders: `conversion`, with `sharpbeam.convert_model` and the way back.

`formats` are file formats, `readers` make our tensors and config of a program's model.
"""
