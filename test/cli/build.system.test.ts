/**
 * The dashboard is built only when its sources have changed. The test builds its own copy, because the real one is being served.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { BUILT, buildPage } from '../../src/cli/page.ts'
import { makePlace } from './helpers.ts'

let sources: string
const write = (name: string, text: string) => writeFileSync(join(sources, name), text)

beforeEach(() => {
  sources = mkdtempSync(join(tmpdir(), 'tollgate-page-'))
  write('vite.config.ts', "export default { publicDir: false, build: { outDir: 'dist', emptyOutDir: true } }\n")
  write('index.html', '<!doctype html><script type="module" src="/main.ts"></script>\n')
  write('main.ts', "const word: string = 'first'\ndocument.title = word\n")
})
afterEach(() => rmSync(sources, { recursive: true, force: true }))

/** The script of the built page. */
function script(folder: string): string {
  const [name] = readdirSync(join(folder, 'assets')).filter(each => each.endsWith('.js'))
  return readFileSync(join(folder, 'assets', name!), 'utf8')
}

const madeAt = (folder: string) => statSync(join(folder, 'index.html')).mtimeMs

test('a failed build is reported and retried, and the old page stays', async () => {
  const old = script(await buildPage(sources))
  write('main.ts', "import './nowhere.ts'\n")
  for (let round = 0; round < 2; round++) {
    const building = buildPage(sources)
    await expect(building).rejects.toMatchObject({ name: 'CommandError' })
    await expect(building).rejects.toThrow(/^The dashboard's page cannot be built: [\s\S]*nowhere\.ts/)
  }
  expect(script(join(sources, 'dist'))).toBe(old)
  write('main.ts', "document.title = 'mended'\n")
  expect(script(await buildPage(sources))).toContain('mended')
})

test('without the development packages, a missing or outdated page is an error, and a current one is used', async () => {
  const without = () => buildPage(sources, null)
  const advice = 'building it needs the development packages: run npm ci first, then tollgate build.'
  await expect(without()).rejects.toMatchObject({
    name: 'CommandError',
    message: `The dashboard's page is not built, and ${advice}`,
  })
  expect(existsSync(join(sources, 'dist'))).toBe(false)

  const folder = await buildPage(sources)
  expect(await without()).toBe(folder)
  write('main.ts', "document.title = 'newer'\n")
  await expect(without()).rejects.toThrow(`The dashboard's page is older than its sources, and ${advice}`)
  expect(script(folder)).toContain('first')
})

test('the page is built once, and again when a source was changed, added or removed', async () => {
  const folder = await buildPage(sources)
  expect(folder).toBe(join(sources, 'dist'))
  expect(script(folder)).toContain('first')

  const before = madeAt(folder)
  expect(await buildPage(sources)).toBe(folder)
  expect(madeAt(folder)).toBe(before)

  write('main.ts', "import './more.ts'\ndocument.title = 'second'\n")
  write('more.ts', "document.body.id = 'more'\n")
  await buildPage(sources)
  expect(script(folder)).toMatch(/more[\s\S]*second/)
  write('main.ts', "document.title = 'third'\n")
  rmSync(join(sources, 'more.ts'))
  await buildPage(sources)
  expect(script(folder)).not.toContain('more')
})

test('concurrent builds over an old page all get a complete page and leave no other files', async () => {
  await buildPage(sources)
  write('main.ts', "document.title = 'together'\n")
  const folders = await Promise.all(Array.from({ length: 3 }, () => buildPage(sources)))
  expect(new Set(folders)).toEqual(new Set([join(sources, 'dist')]))
  expect(script(folders[0]!)).toContain('together')
  const before = madeAt(folders[0]!)
  await buildPage(sources)
  expect(madeAt(folders[0]!)).toBe(before)
  expect(readdirSync(sources).sort()).toEqual(['dist', 'index.html', 'main.ts', 'vite.config.ts'])
})

test('the command prints the folder of the page and opens no store', async () => {
  const place = makePlace()
  try {
    expect(await place.tollgate(['build'])).toEqual({ code: 0, out: `${BUILT}\n`, err: '' })
    expect(existsSync(join(BUILT, 'index.html'))).toBe(true)
    expect(existsSync(join(place.folder, 'data'))).toBe(false)
  } finally {
    place.remove()
  }
})
