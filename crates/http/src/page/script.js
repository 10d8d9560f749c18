// Refreshes the list of questions when the server says that it has changed. The page works without it.
"use strict";
const queue = document.getElementById("queue");
if (queue) {
  const title = document.title;
  const refresh = async (count) => {
    const answer = await fetch("/page/queue", { redirect: "error" });
    if (!answer.ok) return;
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = document.activeElement && document.activeElement.getAttribute("href");
    queue.replaceChildren(...read.body.childNodes);
    const again = [...queue.querySelectorAll("a")].find((link) => link.getAttribute("href") === open);
    if (again) again.focus();
    document.title = count > 0 ? `(${count}) ${title}` : title;
  };
  const events = new EventSource("/page/events");
  events.addEventListener("queue", (event) => { refresh(Number(event.data)).catch(() => location.reload()); });
}
