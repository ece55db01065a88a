// Puts the page together.
deathTable();
sections();
makeLanes();
if (LANES.some(lane => lane.hasMemory) || (FLEET && MARKED.length)) {
  document.getElementById('memory').hidden = false;
  measure();
  listen();
  render();
  legend();
}
processTable();
copyButtons();

function follow() {
  const id = /^#death-(\d+)$/.exec(location.hash);
  if (id) openDeath(Number(id[1]));
}
window.addEventListener('hashchange', follow);
follow();
