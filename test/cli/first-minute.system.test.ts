/**
 * The README's animation, from what the commands print: `TOLLGATE_PICTURES=src/cli/pictures npm run test:system -- first-minute`. A
 * picture is not a behaviour, so the file is skipped otherwise.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { temporaryDirectory } from '../helpers/gateway.ts'
import { testWith } from '../helpers/missing.ts'
import { ROOT } from '../helpers/repository.ts'

const FOLDER = process.env['TOLLGATE_PICTURES']
const COMMANDS = ['npx tollgate init', 'npx tollgate demo', 'npx tollgate test']
const [COLUMNS, ROWS] = [100, 24]
const [CHARACTER_PX, LINE_PX, MARGIN_PX] = [7.8, 19, 18]
const TYPING_MS = 45
/** A longer pause of a command, such as the start of Node.js, takes this time. */
const MAX_PAUSE_MS = 700
const AFTER_COMMAND_MS = 1500

/** Text that appears at a time. */
interface Piece {
  readonly atMs: number
  readonly text: string
  readonly isCommand: boolean
}

testWith(
  FOLDER === undefined ? 'TOLLGATE_PICTURES names no folder' : null,
  'the first minute for the README',
  async () => {
    const folder = await temporaryDirectory()
    await mkdir(join(folder, 'node_modules/.bin'), { recursive: true })
    await symlink(join(ROOT, 'src/cli/tollgate.js'), join(folder, 'node_modules/.bin/tollgate'))
    const pieces: Piece[] = []
    let atMs = 500
    for (const command of COMMANDS) {
      pieces.push({ atMs, text: '$ ', isCommand: true })
      for (const text of command) pieces.push({ atMs: (atMs += TYPING_MS), text, isCommand: true })
      pieces.push({ atMs, text: '\n', isCommand: true })
      for (const { pauseMs, text } of await printed(command, folder))
        pieces.push({ atMs: (atMs += Math.min(pauseMs, MAX_PAUSE_MS)), text, isCommand: false })
      pieces.push({ atMs, text: '\n', isCommand: false })
      atMs += AFTER_COMMAND_MS
    }
    await writeFile(join(FOLDER!, 'first-minute.svg'), drawing(linesOf(pieces)))
  },
)

/** Runs a command; returns its output with the pause before each part. */
async function printed(command: string, cwd: string): Promise<{ pauseMs: number; text: string }[]> {
  const child = spawn(command, { cwd, shell: true, stdio: ['ignore', 'pipe', 'inherit'] })
  let last = performance.now()
  const parts: { pauseMs: number; text: string }[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const now = performance.now()
    parts.push({ pauseMs: now - last, text })
    last = now
  })
  const [code] = await once(child, 'close')
  expect(code).toBe(0)
  return parts
}

/** Breaks pieces into lines: at their line breaks, and before a word that ends after the last column. */
function linesOf(pieces: readonly Piece[]): Piece[][] {
  const characters = pieces.flatMap(piece => [...piece.text].map(text => ({ ...piece, text })))
  const lines: Piece[][] = [[]]
  let column = 0
  for (const { 0: word, index } of characters
    .map(({ text }) => text)
    .join('')
    .matchAll(/\n| +|[^ \n]+/g)) {
    if (word === '\n' || column + word.length > COLUMNS) {
      const indent = word === '\n' ? '' : '   '
      lines.push(indent === '' ? [] : [{ ...characters[index]!, text: indent }])
      column = indent.length
    }
    if (word === '\n') continue
    column += word.length
    for (const piece of characters.slice(index, index + word.length)) add(lines.at(-1)!, piece)
  }
  while (lines.at(-1)!.length === 0) lines.pop()
  return lines
}

/** Adds a piece to a line; joins it to the last one if both appear at once. */
function add(line: Piece[], piece: Piece): void {
  const last = line.at(-1)
  if (last?.atMs === piece.atMs) line[line.length - 1] = { ...piece, text: last.text + piece.text }
  else line.push(piece)
}

/** An animated SVG, which scrolls like a terminal. Without animations (also by the reader's wish), it shows the end. */
function drawing(lines: readonly (readonly Piece[])[]): string {
  const [width, height] = [Math.ceil(COLUMNS * CHARACTER_PX), ROWS * LINE_PX]
  const endMs = Math.max(...lines.flat().map(({ atMs }) => atMs))
  const scrolled = (line: number) => `transform:translateY(${-Math.max(0, line + 1 - ROWS) * LINE_PX}px)`
  // A map, because the last of several lines at one time counts.
  const scrolls = new Map(
    lines.flatMap(([first], line) => (first ? [[percent(first.atMs / endMs), scrolled(line)]] : [])),
  )
  const rows = lines.map((line, index) => {
    const spans = line.map(({ atMs, text, isCommand }) => {
      // SVG joins spaces.
      const shown = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll(' ', '\u00a0')
      return `<tspan${isCommand ? ' class="c"' : ''} style="animation-delay:${Math.round(atMs)}ms">${shown}</tspan>`
    })
    return `<text y="${(index + 0.75) * LINE_PX}">${spans.join('')}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width + 2 * MARGIN_PX}" height="${height + 2 * MARGIN_PX}">
<title>The first minute in a terminal</title>
<style>
@keyframes show{from{fill-opacity:0}to{fill-opacity:1}}
@keyframes scroll{${[...scrolls].map(([at, style]) => `${at}{${style}}`).join('')}}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d8dee9}
tspan{animation:show 1ms both}
.s{${scrolled(lines.length - 1)};animation:scroll ${Math.round(endMs)}ms step-end}
.c{fill:#8fd694}
@media(prefers-reduced-motion:reduce){.s,tspan{animation:none}}
</style>
<rect width="100%" height="100%" rx="8" fill="#0f1720"/>
<clipPath id="screen"><rect width="${width}" height="${height}"/></clipPath>
<g transform="translate(${MARGIN_PX} ${MARGIN_PX})" clip-path="url(#screen)"><g class="s">
${rows.join('\n')}
</g></g>
</svg>
`
}

const percent = (part: number) => `${(part * 100).toFixed(2)}%`
