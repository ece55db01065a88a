// Puts the page together.
deathTable();
sections();
if (NODE.t.length || PROCESSES.some(process => process.t.length)) {
  document.getElementById('memory').hidden = false;
  legend();
  listen();
  render();
}
processTable();

function follow() {
  const id = /^#death-(\d+)$/.exec(location.hash);
  if (id) openDeath(Number(id[1]));
}
window.addEventListener('hashchange', follow);
follow();
