// What the page asks the server. Every call may be cancelled by a signal; the server then drops the work.

const AWAY = "The server does not answer";

// The error of a server that cannot be reached, or of a proxy that cannot reach it: worth another try.
export class Away extends Error {}

export async function ask(path, body, signal) {
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...keyHeader() },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  }).catch((error) => { throw error.name === "AbortError" ? error : new Away(AWAY); });
  if (response.status === 502 || response.status === 504) throw new Away(AWAY);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `the server answered ${response.status}`);
  return answer;
}

export function keyHeader() {
  const key = document.getElementById("key").value.trim();
  return key ? { "X-API-Key": key } : {};
}

// Sends a form with a file; `progress` is called with the share that was sent.
export function sendFile(path, form, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(keyHeader())) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    request.addEventListener("error", () => reject(new Error(AWAY)));
    request.addEventListener("load", () => {
      const answer = request.response || {};
      if (request.status < 300) resolve(answer);
      else reject(new Error(answer.error || `the server answered ${request.status}`));
    });
    request.send(form);
  });
}
