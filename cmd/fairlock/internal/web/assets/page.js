// Keeps an open page as the server sees it. Without this script the page loads itself again.
'use strict'

const live = document.getElementById('live')
const state = document.getElementById('state')
const pause = document.getElementById('pause')
let source, later

function show(text, kind) {
  if (state.textContent !== text) state.textContent = text
  state.className = 'state ' + kind
}

function connect() {
  close()
  source = new EventSource(live.dataset.stream)
  source.onmessage = (event) => {
    const page = JSON.parse(event.data)
    show('live', 'good')
    document.title = page.title
    update(page.html)
  }
  source.onerror = () => {
    show('fairlock web does not answer', 'bad')
    if (source.readyState === EventSource.CLOSED) later = setTimeout(connect, 5000)
  }
}

function close() {
  clearTimeout(later)
  if (source) source.close()
}

// Nobody looks at a page that is hidden, or that was paused.
function follow() {
  const paused = pause.getAttribute('aria-pressed') === 'true'
  if (document.hidden || paused) {
    close()
    show(paused ? 'paused' : '', '')
  } else {
    connect()
  }
}

pause.hidden = false
pause.addEventListener('click', () => {
  const paused = pause.getAttribute('aria-pressed') !== 'true'
  pause.setAttribute('aria-pressed', paused)
  pause.textContent = paused ? 'Go on' : 'Pause'
  follow()
})
document.addEventListener('visibilitychange', follow)
follow()

// update changes only what is different, so that focus, selection and what is typed stay.
function update(html) {
  const focused = document.activeElement && document.activeElement.id
  children(live, new DOMParser().parseFromString(html, 'text/html').body)
  if (focused && document.activeElement.id !== focused) {
    const again = document.getElementById(focused)
    if (again) again.focus({ preventScroll: true })
  }
}

function morph(old, now) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== now.nodeValue) old.nodeValue = now.nodeValue
    return
  }
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name)
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value)
  children(old, now)
}

// children makes the children of old like those of now. Rows are known by their ids.
function children(old, now) {
  const stay = new Set([...now.children].map((c) => c.id).filter(Boolean))
  const known = new Map()
  for (const child of [...old.children]) {
    if (!child.id) continue
    if (stay.has(child.id)) known.set(child.id, child)
    else child.remove()
  }
  let at = old.firstChild
  for (const next of [...now.childNodes]) {
    const same = next.id ? known.get(next.id) : at && !at.id && at.nodeName === next.nodeName && at
    if (!same) {
      old.insertBefore(document.adoptNode(next), at)
      continue
    }
    if (same === at) at = at.nextSibling
    else old.insertBefore(same, at)
    morph(same, next)
  }
  while (at) {
    const next = at.nextSibling
    at.remove()
    at = next
  }
}
