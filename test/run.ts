/**
 * The three commands of package.json: `npm test`, `npm run test:system`, `npm run test:full -- PART`. Type check and linter run
 * beside the tests; their output follows at the end. Processes that are still running after the tests fail the run.
 */
import { type Command, type RunOutcome, runTogether } from './helpers/beside.ts'
import { endLeftovers } from './helpers/leftovers.ts'
import { installPackages } from './helpers/packages.ts'
import { isPart, type Layer, PARTS } from './helpers/parts.ts'
import { ROOT } from './helpers/repository.ts'
import { wrongFiles } from './helpers/right-command.ts'

const PART_LIST = Object.entries(PARTS).map(([name, what]) => `  ${name.padEnd(12)}${what}`)

const HELP: Readonly<Record<Layer, string>> = {
  unit: `npm test [-- FILE … | --update | options of vitest]

Type check, linter, and the tests in *.test.ts. They need nothing but this checkout.
  --update    write what the code returns now into cases/*.json, to review it as a diff`,
  system: `npm run test:system [-- FILE … | options of vitest]

The tests in *.system.test.ts, and those in *.engines.test.ts on PostgreSQL: real databases, browsers, client SDKs, kills, floods.
Installs the packages that they need into test/packages. A test whose program is not installed is left out, with the reason.`,
  full: `npm run test:full -- PART [FILE … | options of vitest]

The full counts of one part:
${PART_LIST.join('\n')}`,
}

const BIN = (name: string) => `${ROOT}/node_modules/.bin/${name}`
const CHECKS: Readonly<Record<'unit' | 'system', readonly Command[]>> = {
  unit: [
    { name: 'types', line: [BIN('tsc'), '--noEmit'] },
    { name: 'types of the dashboard', line: [BIN('tsc'), '-p', 'src/dashboard'] },
    { name: 'lint', line: [BIN('biome'), 'check', '--error-on-warnings'] },
  ],
  system: [
    { name: 'types', line: [BIN('tsc'), '-p', 'test/packages'] },
    { name: 'types of the dashboard', line: [BIN('tsc'), '-p', 'test/packages/tsconfig.dashboard.json'] },
  ],
}

async function run(layer: Layer, args: readonly string[]): Promise<number> {
  const part = layer === 'full' ? args[0] : undefined
  if (args.includes('--help') || (layer === 'full' && part === undefined)) {
    console.log(HELP[layer])
    return args.includes('--help') ? 0 : 2
  }
  if (part !== undefined && !isPart(part)) {
    console.error(`"${part}" is not a part: ${Object.keys(PARTS).join(', ')}`)
    return 2
  }
  if (part === 'plants')
    return exitCodeOf(
      await runTogether([], { name: 'plants', line: [BIN('node'), 'test/plants/run.ts', ...args.slice(1)] }),
    )
  const wrong = wrongFiles(args.slice(part ? 1 : 0), layer, part)
  for (const sentence of wrong) console.error(sentence)
  if (wrong.length > 0) return 2
  if (layer !== 'unit' && !installPackages()) return 1
  // A run of named files, or one that rewrites cases, omits the checks.
  const checks =
    layer === 'full' || args.some(argument => !argument.startsWith('-') || argument === '-u' || argument === '--update')
      ? []
      : CHECKS[layer]
  const vitest = {
    name: 'tests',
    line: [BIN('vitest'), 'run', '--config', 'test/vitest.config.ts', ...args.slice(part ? 1 : 0)],
  }
  process.env['TOLLGATE_LAYER'] = layer
  if (part) process.env['TOLLGATE_PART'] = part
  const result = await runTogether(checks, vitest)
  const left = await endLeftovers(result)
  const code = exitCodeOf(result)
  for (const line of left) console.error(`✗ still running after the tests, and ended now: ${line}`)
  return code === 0 && left.length > 0 ? 1 : code
}

function exitCodeOf({ code, checks }: RunOutcome): number {
  for (const check of checks) {
    process.stdout.write(`${check.code === 0 ? '✓' : '✗'} ${check.name}\n${check.code === 0 ? '' : check.output}`)
  }
  return code !== 0 ? code : checks.some(check => check.code !== 0) ? 1 : 0
}

const [layer = 'unit', ...args] = process.argv.slice(2)
process.exitCode = await run(layer as Layer, args)
