/**
 * Checks the repository against its pages: which parts import which, and which use clocks and random numbers. Every error, plugin,
 * command, metric, setting and package is documented, and nothing else.
 */
import { existsSync, readdirSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { basename, join } from 'node:path'
import { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { ERRORS } from '#contract'
import { ROUTES } from '../src/api/routes.ts'
import type { AddCommand } from '../src/cli/commands.ts'
import { BUILT_IN } from '../src/loader/builtin.ts'
import { METRICS } from '../src/observe/metric-list.ts'
import { CLOCK_WORDS, TIME_AND_CHANCE } from './helpers/clock-uses.ts'
import { isSystemFile, runsIn } from './helpers/parts.ts'
import {
  allFiles,
  importCircles,
  importsOf,
  isTestFile,
  ROOT,
  read,
  samplesOf,
  sectionOf,
  tableOf,
  withoutComments,
} from './helpers/repository.ts'
import { SHARED_NAMES } from './helpers/shared-names.ts'
import { hardWords } from './helpers/words.ts'
import { PLANTS } from './plants/list.ts'

/** The other parts that each part of src may import, from top to bottom as in the drawing of src/README.md. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  'package/': ['cli/'],
  'cli/': [
    'testing/',
    'replay/',
    'main.ts',
    'runtime/',
    'simulate/',
    'config/',
    'catalog/',
    'request/pipeline/',
    'loader/',
    'providers/dialects/',
    'providers/',
    'observe/',
    'api/',
    'alerts/',
    'store/',
    'budgets/',
    'contract/',
  ],
  'testing/': ['simulate/', 'config/', 'request/pipeline/', 'loader/', 'store/', 'contract/'],
  'replay/': [
    'simulate/',
    'config/',
    'request/',
    'loader/',
    'providers/dialects/',
    'request/answer/',
    'state/',
    'common/',
    'contract/',
  ],
  'main.ts': [
    'runtime/',
    'app.ts',
    'request/generation.ts',
    'config/',
    'loader/',
    'observe/',
    'api/',
    'store/',
    'state/',
    'common/',
    'contract/',
  ],
  'runtime/': [
    'simulate/',
    'app.ts',
    'gateway.ts',
    'request/send/',
    'request/generation.ts',
    'config/',
    'request/pipeline/',
    'loader/',
    'request/http/',
    'observe/',
    'api/',
    'alerts/',
    'store/',
    'state/',
    'common/',
    'contract/',
  ],
  'simulate/': [
    'app.ts',
    'gateway.ts',
    'request/send/',
    'request/http/',
    'request/generation.ts',
    'config/',
    'request/pipeline/',
    'request/',
    'loader/',
    'providers/',
    'store/',
    'budgets/',
    'state/',
    'common/',
    'contract/',
  ],
  'app.ts': [
    'gateway.ts',
    'request/send/',
    'request/generation.ts',
    'config/',
    'providers/dialects/',
    'request/http/',
    'contract/',
  ],
  'gateway.ts': [
    'request/send/',
    'request/generation.ts',
    'config/',
    'request/pipeline/',
    'request/',
    'providers/dialects/',
    'request/http/',
    'common/',
    'contract/',
  ],
  'request/send/': [
    'request/generation.ts',
    'request/pipeline/',
    'request/',
    'providers/dialects/',
    'request/answer/',
    'providers/',
    'request/http/',
    'observe/',
    'store/',
    'budgets/',
    'common/',
    'contract/',
  ],
  'request/generation.ts': [
    'config/',
    'loader/',
    'providers/dialects/',
    'providers/',
    'observe/',
    'store/',
    'budgets/',
    'state/',
    'common/',
    'contract/',
  ],
  'config/': ['catalog/', 'providers/dialects/', 'common/', 'contract/'],
  'catalog/': ['providers/dialects/', 'common/', 'contract/'],
  'request/pipeline/': ['request/', 'loader/', 'common/', 'contract/'],
  'request/': ['loader/', 'contract/'],
  'loader/': ['common/', 'contract/'],
  'providers/dialects/': ['common/', 'contract/'],
  'request/answer/': ['common/', 'contract/'],
  'providers/': ['common/', 'contract/'],
  'request/http/': ['common/', 'contract/'],
  'observe/': ['common/', 'contract/'],
  'dashboard/': ['api/'],
  'api/': ['alerts/', 'store/', 'budgets/', 'common/', 'contract/'],
  'alerts/': ['store/', 'budgets/', 'common/', 'contract/'],
  'store/': ['common/', 'contract/'],
  'budgets/': ['contract/'],
  'state/': ['common/', 'contract/'],
  'common/': ['contract/'],
  'contract/': [],
  'deploy/': [],
  'node-runtime/': [],
}

/** The only file of src that may import plugins. */
const PLUGIN_IMPORTER = 'src/loader/builtin.ts'
/** Packages that a plugin of this repository may import. */
const PLUGIN_PACKAGES: Readonly<Record<string, readonly string[]>> = {
  jwt: ['jose'],
  schema: ['ajv'],
}
/** The files that may import SQLite. */
const SQLITE_IMPORTERS = ['src/store/engine/database.ts']

/** The allowed names at the top, besides files that begin with a dot. */
const TOP_LEVEL = [
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'src',
  'plugins',
  'policies',
  'gateway.yaml',
  'test',
  'README.md',
  'LICENSE',
  'node_modules',
]

/** The most lines of a file. A test file may be longer, because it is a list of cases. */
const LONGEST = { product: 400, tests: 700 }
const LONG_FILES: Readonly<Record<string, string>> = {
  'package-lock.json': 'written by npm',
  'test/packages/package-lock.json': 'written by npm',
  'src/config/REFERENCE.md': 'written by tollgate schema: one row after the other',
  'src/deploy/grafana/tollgate.json': 'one panel after the other, in the format of Grafana',
}

/** All files except pictures. */
const files = allFiles().filter(file => !file.endsWith('.png'))
const sources = files.filter(file => /^(src|plugins|test)\/.*\.(tsx?|js|mjs)$/.test(file))
const product = sources.filter(file => !isTestFile(file))
const readme = read('README.md')

describe('imports', () => {
  test('are found, and name existing files and packages', () => {
    const { dependencies, devDependencies } = manifest()
    const wrong: string[] = []
    let count = 0
    for (const file of sources) {
      for (const { specifier, target } of importsOf(file)) {
        count++
        const inProduct = product.includes(file)
        if (target !== null) {
          if (!existsSync(join(ROOT, target))) wrong.push(`${file}: ${specifier} does not exist`)
          if (inProduct && !target.endsWith('.css') && !product.includes(target))
            wrong.push(`${file}: ${specifier} belongs to the tests`)
        } else if (!isBuiltin(specifier)) {
          // The dashboard is built before it is served, so its packages are development dependencies.
          const known = {
            ...dependencies,
            ...(inProduct && !isDashboard(file) ? {} : devDependencies),
            ...(isSystemFile(file) ? systemPackages() : {}),
          }
          const name = packageOf(specifier)
          // Types of Koa come from @types/koa, its code from koa.
          if (!Object.hasOwn(known, name)) wrong.push(`${file}: ${name} is not in package.json`)
        } else if (!specifier.startsWith('node:')) wrong.push(`${file}: ${specifier} without node:`)
      }
    }
    expect(wrong).toEqual([])
    expect(count).toBeGreaterThan(500)
  })

  test('within src are allowed by the table, and every arrow of the table is used', () => {
    const used = new Map<string, Set<string>>(Object.keys(ARROWS).map(part => [part, new Set()]))
    const wrong: string[] = []
    for (const file of product.filter(name => name.startsWith('src/'))) {
      const from = partOf(file)
      for (const { specifier, target } of importsOf(file)) {
        if (target === null) continue
        if (target.startsWith('plugins/')) {
          if (file !== PLUGIN_IMPORTER) wrong.push(`${file} imports ${target}; only ${PLUGIN_IMPORTER} may do so`)
          continue
        }
        const to = partOf(target)
        if (to === from && from.endsWith('/')) {
          if (specifier.startsWith('#')) wrong.push(`${file} imports its own folder as ${specifier}`)
        } else if (ARROWS[from]?.includes(to)) used.get(from)!.add(to)
        else wrong.push(`${file} imports ${target}: ${from} may not import ${to}`)
      }
    }
    expect(wrong).toEqual([])
    for (const [from, to] of Object.entries(ARROWS)) expect([...used.get(from)!].sort(), from).toEqual([...to].sort())
  })

  test('every arrow of the table points down, and the table has the order of the drawing', () => {
    const order = Object.keys(ARROWS)
    const upwards = Object.entries(ARROWS).flatMap(([from, to]) =>
      to.filter(each => order.indexOf(each) <= order.indexOf(from)).map(each => `${from} -> ${each}`),
    )
    expect(upwards).toEqual([])
    expect(drawing()).toEqual(order)
  })

  test('the drawing of src/README.md has everything in src, and nothing else', () => {
    const there = readdirSync(join(ROOT, 'src'), { withFileTypes: true })
    const names = there.map(entry => (entry.isDirectory() ? `${entry.name}/` : entry.name))
    const drawn = drawing().map(part => part.replace(/(?<=\/).*/, ''))
    expect([...new Set(drawn)].sort()).toEqual(names.filter(name => name !== 'README.md').sort())
  })

  test('two files of src share a name only for a listed reason', () => {
    const folders = new Map<string, string[]>()
    // A page of the dashboard may have the name of the data that it shows.
    for (const file of product.filter(name => name.startsWith('src/') && !name.startsWith('src/dashboard/pages/'))) {
      const base = basename(file).replace(/\.\w+$/, '')
      folders.set(base, [...(folders.get(base) ?? []), file])
    }
    const several = [...folders].filter(([, files]) => files.length > 1)
    const unexplained = several.filter(([base]) => !Object.hasOwn(SHARED_NAMES, base))
    expect(unexplained.map(([, files]) => files)).toEqual([])
    expect(Object.keys(SHARED_NAMES).sort()).toEqual(several.map(([base]) => base).sort())
  })

  test('have no cycles', () => {
    const drawn: Record<string, readonly string[]> = { a: ['b', 'c'], b: ['c'], c: ['d', 'b'], d: [] }
    expect(importCircles(Object.keys(drawn), file => drawn[file]!)).toEqual(['b -> c -> b'])
    const targets = (file: string) => importsOf(file).flatMap(({ target }) => (target === null ? [] : [target]))
    expect(importCircles(product, file => (product.includes(file) ? targets(file) : []))).toEqual([])
  })

  test('plugins import #contract, their own folder, Node.js, and the listed packages', () => {
    const wrong: string[] = []
    const used = new Set<string>()
    for (const file of product.filter(name => name.startsWith('plugins/'))) {
      const folder = file.split('/')[1]!
      for (const { specifier, target } of importsOf(file)) {
        const name = packageOf(specifier)
        if (specifier === '#contract' || isBuiltin(specifier)) continue
        if (target?.startsWith(`plugins/${folder}/`)) continue
        if (PLUGIN_PACKAGES[folder]?.includes(name)) used.add(`${folder}: ${name}`)
        else wrong.push(`${file} imports ${specifier}`)
      }
    }
    expect(wrong).toEqual([])
    const listed = Object.entries(PLUGIN_PACKAGES).flatMap(([folder, names]) => names.map(name => `${folder}: ${name}`))
    expect([...used]).toEqual(listed)
  })

  test('only the database file imports SQLite', () => {
    const importers = sources.filter(file => importsOf(file).some(({ specifier }) => specifier === sqliteName()))
    expect(importers).toEqual(SQLITE_IMPORTERS)
  })

  test('the contract imports no other part', () => {
    const outside = product
      .filter(file => file.startsWith('src/contract/'))
      .flatMap(file => importsOf(file).filter(({ target }) => !target?.startsWith('src/contract/')))
    // The types of Koa, because a plugin is a Koa middleware; isIPv4, isIPv6 and isDeepStrictEqual of Node.js.
    expect([...new Set(outside.map(({ specifier }) => specifier))].sort()).toEqual(['koa', 'node:net', 'node:util'])
  })
})

describe('code', () => {
  test('uses clocks and random numbers only where the table gives a reason', () => {
    const found: Record<string, string[]> = {}
    for (const file of product.filter(name => !isDashboard(name))) {
      const code = withoutComments(read(file))
      const words = CLOCK_WORDS.filter(word => hasWord(code, word))
      if (words.length > 0) found[file] = words.sort()
    }
    const allowed = Object.entries(TIME_AND_CHANCE).map(([file, [words]]) => [file, [...words].sort()])
    expect(found).toEqual(Object.fromEntries(allowed))
  })

  test('sets the outcome of an exchange in one place', () => {
    const assigned = /\.outcome\s*(?:\?\?|\|\||&&)?=(?!=)/
    const found = product
      .filter(name => !isDashboard(name))
      .flatMap(file => {
        const lines = withoutComments(read(file)).split('\n')
        return lines.flatMap(line => (assigned.test(line) ? [`${file}: ${line.trim()}`] : []))
      })
    // The constructor of a reply sets its outcome.
    const ofReplies = found.filter(line => line.startsWith('src/request/send/reply.ts: this.outcome = outcome'))
    expect(found.filter(line => !ofReplies.includes(line))).toEqual([
      'src/request/exchange.ts: this.outcome = outcomeAfter(this.outcome, how)',
    ])
  })

  test('assigns no function literal to a property', () => {
    // V8 allocates such a function in the old generation at once. Then its closure (a whole request) lives until the next full
    // collection. Measured: a third of a request's CPU.
    const assigned = /^\s*[\w.#]+\.#?\w+ (?:\?\?)?= (?:async )?(?:\([^=]*\)|\w+)(?:: [^=]+)? =>/
    const found = product
      .filter(name => !isDashboard(name))
      .flatMap(file =>
        read(file)
          .split('\n')
          .flatMap((line, index) => (assigned.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
      )
    expect('    this.#resume = () => {').toMatch(assigned)
    expect('  exchange.finish = async (a: number): Promise<void> => {').toMatch(assigned)
    expect(found).toEqual([])
  })

  test('parses no notes: the data of a step is in fields of the trail', () => {
    const reads =
      /\bnote\)?[?!]?\.(includes|startsWith|endsWith|indexOf|search|match|matchAll|split|replace)\(|\.(test|exec)\([^)]*\bnote\b|\bnote [!=]==? [`'"](?!['"])|\bcase .*\bnote\b/
    const old = [
      'note?.includes(IN_THE_MIDDLE)',
      "note?.split('; ').includes(FREE)",
      '/^free/.test(entry.note)',
      "note === 'free'",
    ]
    for (const line of old) expect(line).toMatch(reads)
    const found = product.flatMap(file =>
      read(file)
        .split('\n')
        .flatMap((line, index) => (reads.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
    )
    expect(found).toEqual([])
  })

  test('every export of the contract has a doc comment', () => {
    const silent: string[] = []
    let count = 0
    for (const file of product.filter(name => name.startsWith('src/contract/'))) {
      const lines = read(file).split('\n')
      for (const [index, line] of lines.entries()) {
        if (!/^export (const|function|class|interface|type [A-Z])/.test(line)) continue
        count++
        if (!lines[index - 1]?.trimEnd().endsWith('*/')) silent.push(`${file}:${index + 1}: ${line}`)
      }
    }
    expect(silent).toEqual([])
    expect(count).toBeGreaterThan(50)
  })

  test.each([
    [
      'no test, hook or wait has a limit of its own',
      /\bvi\.wait(?:For|Until)\(|\.poll\(.*\btimeout: |^\s*(?:test|it|describe|beforeAll|afterAll)\b.*\{ timeout: /,
      ['await vi.waitFor(look)', "test('a', { timeout: 5 }, run)"],
    ],
    [
      'no test is left out without a reason',
      /\.skip\(\)|\.(?:skipIf|runIf)\(|\b(?:test|it|describe)\.(?:skip|todo)\b/,
      ["test.runIf(full)('a', run)", "describe.skip('a', tests)", 'return context.skip()'],
    ],
  ])('%s', (_, wrong, samples) => {
    for (const line of samples) expect(line).toMatch(wrong)
    const others = ['test/tidy.test.ts', 'test/helpers/isolation.test.ts', 'test/helpers/until.ts']
    const tests = sources.filter(file => isTestFile(file) && !others.includes(file))
    const found = tests.flatMap(file =>
      read(file)
        .split('\n')
        .flatMap((line, index) =>
          wrong.test(line) && !/'\s*await vi/.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [],
        ),
    )
    expect(found).toEqual([])
  })

  test('no file is too long', () => {
    const long = files.filter(file => {
      const most = isTestFile(file) ? LONGEST.tests : LONGEST.product
      return !isData(file) && read(file).split('\n').length - 1 > most
    })
    expect(long).toEqual([])
  })

  test('no file has an open task or names a package registry', () => {
    // Joined here, so that this file does not contain the words itself.
    const unfinished = new RegExp(
      String.raw`\b(${['TO', 'FIX', 'XX'].map((start, at) => start + ['DO', 'ME', 'X'][at]).join('|')})\b`,
    )
    const registries = new RegExp(
      [
        ['npm', 'js'],
        ['yarn', 'pkg'],
        ['npm', 'mirror'],
      ]
        .map(parts => `${parts.join('')}\\.(org|com|net)`)
        .join('|'),
    )
    const tarball = new RegExp(String.raw`https?:\/\/[^\s"]+\.` + ['tg', 'z'].join(''))
    const resolved = new RegExp(`"${['resol', 'ved'].join('')}": "[a-z+]+:`)
    const wrong: string[] = []
    for (const file of files) {
      for (const [index, line] of read(file).split('\n').entries()) {
        const needles = [registries, tarball, resolved, ...(isWritten(file) ? [unfinished] : [])]
        const needle = needles.find(each => each.test(line))
        if (needle) wrong.push(`${file}:${index + 1} has ${needle.exec(line)![0]}`)
      }
    }
    expect(wrong).toEqual([])
  })

  test('the top folder has the allowed files only', () => {
    // `npm pack` creates two that are never committed.
    const names = readdirSync(ROOT).filter(name => !/^\.|^dist$|\.tgz$/.test(name))
    expect(names.sort()).toEqual([...TOP_LEVEL].sort())
  })
})

test('no word, name or sentence is hard to read', () => {
  expect(hardWords(files)).toEqual([])
})

describe('the pages', () => {
  test('src/contract/README.md has a row for every error, with the texts of the code', () => {
    const rows = Object.entries(ERRORS).map(([code, { status, retryable, message }]) => [
      `\`${code}\``,
      String(status),
      retryable ? 'yes' : 'no',
      message,
    ])
    expect(tableOf(read('src/contract/README.md'), 'code')).toEqual(rows)
  })

  test('every error is used somewhere', () => {
    const code = product.filter(file => file !== 'src/contract/errors.ts').map(file => withoutComments(read(file)))
    const unused = Object.keys(ERRORS).filter(name => !code.some(text => text.includes(`'${name}'`)))
    expect(unused).toEqual([])
  })

  test('src/observe/README.md has a row for every metric, with the texts of the code', () => {
    const rows = METRICS.map(({ name, type, labels, help }) => [`\`${name}\``, type, labels.join(', '), help])
    expect(tableOf(read('src/observe/README.md'), 'metric')).toEqual(rows)
  })

  test('src/api/README.md has a row for every route of the account API, with the texts of the code', () => {
    const rows = ROUTES.map(({ method, path, audience, summary }) => [`\`${method} ${path}\``, audience, summary])
    expect(tableOf(read('src/api/README.md'), 'Route')).toEqual(rows)
  })

  test('test/README.md has a row for every planted fault', () => {
    const rows = PLANTS.map(({ promise, fault, tests }) => [
      promise,
      fault,
      tests.map(file => `\`${file}\``).join(', '),
    ])
    expect(tableOf(read('test/README.md'), 'Promise')).toEqual(rows)
    expect(
      PLANTS.flatMap(({ tests }) => tests).filter(file => !existsSync(join(ROOT, file)) || !runsIn(file, 'unit')),
    ).toEqual([])
  })

  test('a fault is planted for every promise', () => {
    const promises = new Set(PLANTS.map(({ promise }) => promise))
    const invariants = [...read('src/store/README.md').matchAll(/^\| (I\d+) \|/gm)].map(([, name]) => name!)
    const rows = [...sectionOf(readme, 'What it promises').matchAll(/^- \*\*([^*]+)\.\*\*/gm)].map(([, row]) => row!)
    expect(invariants.length).toBe(13)
    expect(rows.length).toBeGreaterThan(5)
    expect([...invariants, ...rows].filter(name => !promises.has(name))).toEqual([])
  })

  test('src/cli/README.md has a row for every command', () => {
    const rows = tableOf(read('src/cli/README.md'), 'Command').flatMap(([cell]) => commandsIn(cell!))
    expect(rows.sort()).toEqual(commands().sort())
  })

  test('the README is a page of at most 1,500 words', () => {
    expect(readme.match(/\S*\w\S*/g)!.length).toBeLessThanOrEqual(1500)
  })

  test('src/README.md has a row for every package, and names the development packages', () => {
    const { dependencies, devDependencies } = manifest()
    const rows = tableOf(read('src/README.md'), 'Package').map(([cell]) => /`([^`]+)`/.exec(cell!)![1])
    expect(rows.sort()).toEqual(Object.keys(dependencies).sort())
    const section = sectionOf(read('src/README.md'), 'Dependencies')
    const others = Object.keys({ ...devDependencies, ...systemPackages() })
    const unnamed = others.filter(name => !name.startsWith('@types/'))
    expect(unnamed.filter(name => !section.includes(`\`${name}\``))).toEqual([])
  })
})

describe('plugins', () => {
  const folders = readdirSync(join(ROOT, 'plugins'), { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(entry => entry.name)

  test('every built-in plugin has a folder, and every folder is a built-in plugin', () => {
    expect([...BUILT_IN].map(({ name }) => name).sort()).toEqual(folders.sort())
  })

  test.each(folders)('%s has its code, its tests and its README', folder => {
    for (const name of ['index.ts', 'index.test.ts', 'README.md']) {
      expect(existsSync(join(ROOT, 'plugins', folder, name)), `plugins/${folder}/${name}`).toBe(true)
    }
  })

  test.each(folders)('%s: README names every setting and no other', folder => {
    const { settings, critical } = BUILT_IN.find(({ name }) => name === folder)!
    const text = read(`plugins/${folder}/README.md`)
    const rows = text.includes('| Setting |') ? tableOf(text, 'Setting').map(([cell]) => cell) : []
    expect(rows.sort()).toEqual(
      Object.keys(settings.properties)
        .map(name => `\`${name}\``)
        .sort(),
    )
    expect(/\b(is|are) critical\b/.test(text), 'says whether it is critical').toBe(critical === true)
  })

  test('README.md and plugins/README.md have a row for every plugin', () => {
    const names = BUILT_IN.map(({ name }) => name)
    const linked = (text: string, below: string) => tableOf(text, 'Plugin').map(([cell]) => [cell, below])
    expect(linked(readme, '')).toEqual(names.map(name => [`[\`${name}\`](plugins/${name}/README.md)`, '']))
    expect(linked(read('plugins/README.md'), '')).toEqual(names.map(name => [`[\`${name}\`](${name}/README.md)`, '']))
  })

  test('plugins/README.md has the facts that each plugin gives', () => {
    const rows = tableOf(read('plugins/README.md'), 'Plugin').map(([, , gives]) => gives)
    expect(rows).toEqual(BUILT_IN.map(({ gives }) => (gives ?? []).map(fact => `\`${fact}\``).join(', ')))
  })
})

/** The dashboard runs in browsers, where the rules for clocks, random numbers and memory do not apply. */
function isDashboard(file: string): boolean {
  return file.startsWith('src/dashboard/')
}

/** The longest key of the table that the path begins with: `store/` for `src/store/money/ledger.ts`, `main.ts` for `src/main.ts`. */
function partOf(file: string): string {
  const path = file.slice('src/'.length)
  const rows = Object.keys(ARROWS).filter(part => path.startsWith(part))
  return rows.sort((a, b) => b.length - a.length)[0] ?? path
}

function packageOf(specifier: string): string {
  const parts = specifier.split('/')
  return parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/')
}

/** The names at the left of the drawing. */
function drawing(): string[] {
  const { text } = samplesOf('src/README.md')[0]!
  return [...text.matchAll(/^([a-z/-]+(?:\/|\.ts)) /gm)].map(match => match[1]!)
}

/** All commands, such as `tollgate account create`, of the program that the files in src/cli build. */
function commands(): string[] {
  const program = new Command('tollgate')
  const terminal = { env: {}, folder: '/', out() {}, err() {}, watched: false, self: 'tollgate' }
  for (const add of adders) add(program, { terminal, finish: async () => {} })
  const leaves = (command: Command): string[] => {
    const path = `${command.parent ? `${pathOf(command.parent)} ` : ''}${command.name()}`
    return command.commands.length > 0 ? command.commands.flatMap(leaves) : [path]
  }
  return program.commands.flatMap(leaves)
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name()
}

const modules = await Promise.all(
  readdirSync(join(ROOT, 'src/cli'))
    .filter(name => name.endsWith('.ts'))
    .map(name => import(join(ROOT, 'src/cli', name)) as Promise<Record<string, unknown>>),
)
const adders = modules.flatMap(module =>
  Object.entries(module).flatMap(([name, value]) => (/^add[A-Z]/.test(name) ? [value as AddCommand] : [])),
)

/** All commands of a cell. `tollgate key create`, `list` are two: a later one replaces the last word of the first. */
function commandsIn(cell: string): string[] {
  const [first = '', ...others] = [...cell.matchAll(/`([^`]+)`/g)].map(match => match[1]!)
  const stem = first.split(' ').slice(0, -1).join(' ')
  return [first, ...others.map(word => `${stem} ${word}`)]
}

function manifest(): Record<'dependencies' | 'devDependencies', Record<string, string>> {
  return JSON.parse(read('package.json'))
}

/** The packages that only system tests need. */
function systemPackages(): Record<string, string> {
  return JSON.parse(read('test/packages/package.json')).dependencies
}

/** Whether the code has the word. A method of that name (`socket.setTimeout`) does not count. */
function hasWord(code: string, word: string): boolean {
  return new RegExp(`(?<![.\\w])${word.replace(/[.()]/g, '\\$&')}(?!\\w)`).test(code)
}

/** Lists of cases and dumps may be long. */
function isData(file: string): boolean {
  return Object.hasOwn(LONG_FILES, file) || /\/(?:cases\/[^/]+\.json|fixtures\/[^/]+\.sql)$/.test(file)
}

/** Whether the file is neither generated nor the license. */
function isWritten(file: string): boolean {
  return !file.endsWith('package-lock.json') && file !== 'LICENSE'
}

function sqliteName(): string {
  return 'node:sqlite'
}
