// Translating a file: chosen or dropped, with its progress.
import { sendFile } from "./server.js";

const at = (id) => document.getElementById(id);

export function offerFiles(kinds) {
  at("files").hidden = false;
  at("kinds").textContent = kinds.join(" ");
  at("file").accept = kinds.join(",");
  at("file").addEventListener("change", () => { if (at("file").files.length) translateFile(at("file").files[0]); });
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
    at("drop").addEventListener(name, (event) => {
      event.preventDefault();
      at("drop").classList.toggle("over", name === "dragenter" || name === "dragover");
    });
  }
  at("drop").addEventListener("drop", (event) => { if (event.dataTransfer.files.length) translateFile(event.dataTransfer.files[0]); });
}

async function translateFile(file) {
  const form = new FormData(), progress = at("progress"), status = at("file-status");
  form.append("file", file);
  form.append("source", at("from").value);
  form.append("target", at("to").value);
  progress.hidden = false;
  progress.value = 0;
  status.classList.remove("wrong");
  status.textContent = `Sending ${file.name}`;
  try {
    const { translatedFileUrl } = await sendFile("translate_file", form, (share) => {
      if (share < 1) { progress.value = share; return; }
      progress.removeAttribute("value"); // sent; how long the translation takes is not known
      status.textContent = `Translating ${file.name}`;
    });
    const link = document.createElement("a");
    link.href = new URL(translatedFileUrl, location.href).pathname;
    link.download = file.name.replace(/(\.[^.]*)?$/, `.${form.get("target")}$1`);
    link.textContent = `Download the translation of ${file.name}`;
    status.replaceChildren(link);
  } catch (error) {
    status.textContent = error.message;
    status.classList.add("wrong");
  } finally {
    progress.hidden = true;
    at("file").value = "";
  }
}
