"""Tables and figures of the learning-to-screen paper."""
