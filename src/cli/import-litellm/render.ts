/** Renders an import as files, and its remarks as text. */
import { stringify } from 'yaml'
import type { ImportResult } from './index.ts'
import type { Remark, RemarkKind } from './remarks.ts'

/**
 * The files by their relative path.
 * @param commands the full command lines that create accounts and keys
 */
export function filesOf(
  { gateway, policies, remarks, variables }: ImportResult,
  source: string,
  commands: readonly string[],
): Map<string, string> {
  const names = [...variables.keys()].toSorted()
  return new Map([
    [
      'gateway.yaml',
      `# Converted from ${source}. \`tollgate check\` lists problems, and IMPORTED.md unconverted settings.\n${yaml(gateway)}`,
    ],
    ...Object.entries(policies).map(
      ([name, policy]) =>
        [
          `policies/${name}.yaml`,
          `# Converted from ${source}. Steps run from top to bottom.\n${yaml(policy)}`,
        ] as const,
    ),
    ['IMPORTED.md', report(remarks, source, { names, commands })],
    ...(names.length === 0 ? [] : ([['.env.example', environment(variables, source)]] as const)),
  ])
}

/** Names with examples of addresses, versions and regions, without any value of the source. */
function environment(variables: ImportResult['variables'], source: string): string {
  const lines = [...variables]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, sample]) => {
      return `${/^(https?:|\d|us-)/.test(sample) ? `# such as ${sample}\n` : ''}${name}=\n`
    })
  return `# Converted from ${source}. Copy this file to .env beside gateway.yaml, fill it in, and keep .env out of version control.\n${lines.join('')}`
}

function yaml(value: object): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })
}

/** In display order. */
const TITLES: Readonly<Record<RemarkKind, string>> = {
  yours: 'To do',
  lost: 'Not converted',
  changed: 'Converted, with differences',
  unneeded: 'Not needed',
}
const KINDS = Object.keys(TITLES) as RemarkKind[]

function report(
  remarks: readonly Remark[],
  source: string,
  { names, commands }: { readonly names: readonly string[]; readonly commands: readonly string[] },
): string {
  const needed =
    names.length === 0
      ? []
      : [
          `## Variables\n\nThe environment, or \`.env\` beside gateway.yaml (copy \`.env.example\` and fill it in), must have:\n\n${names.map(name => `- \`${name}\`\n`).join('')}`,
        ]
  const keys = `## Accounts and keys

LiteLLM keeps keys, users, teams and their spend in its database. It stores digests of its keys, so they cannot be moved. Create an account
for each team or customer, and issue new keys; \`--cap\` is a \`max_budget\` without \`budget_duration\`, \`--models\` the old \`models\`:

\`\`\`sh
${commands.map(command => `${command}\n`).join('')}\`\`\`
`
  const lists = KINDS.flatMap(kind => {
    const lines = remarks.filter(remark => remark.kind === kind).map(remark => `- ${remarkText(remark, source)}\n`)
    return lines.length === 0 ? [] : [`## ${TITLES[kind]}\n\n${lines.join('')}`]
  })
  return `# Imported from ${source}\n\n${[...lists, ...needed, keys].join('\n')}`
}

/** `config.yaml:12 model_list[0].litellm_params.tags: why; what instead`. */
export function remarkText(remark: Remark, source: string): string {
  return `${placeOf(remark, source)}: ${sentenceOf(remark)}`
}

function placeOf({ line, path, what }: Remark, source: string): string {
  return `${source}:${line}${path === '' ? '' : ` ${path}`}${what === null ? '' : ` (${what})`}`
}

function sentenceOf({ why, instead }: Remark): string {
  return `${why}${instead === null ? '' : `; ${instead}`}`
}

/** All remarks, one per line, below their titles. */
export function listOf(remarks: readonly Remark[], source: string): string {
  return KINDS.flatMap(kind => {
    const lines = remarks.filter(remark => remark.kind === kind)
    if (lines.length === 0) return []
    return [`${TITLES[kind]} (${lines.length})\n${lines.map(remark => `  ${remarkText(remark, source)}\n`).join('')}`]
  }).join('\n')
}

/** The maximum number of lines in the summary. */
const MOST_LINES = 12

/**
 * The remarks on a terminal: a line for each sentence, with a count and the first place. Unneeded settings share one line.
 * @param rest where all remarks can be found
 */
export function summary(remarks: readonly Remark[], source: string, rest: string): string {
  const groups = KINDS.flatMap(kind => {
    const ofKind = remarks.filter(remark => remark.kind === kind)
    if (kind === 'unneeded') return ofKind.length === 0 ? [] : [ofKind]
    // Remarks on models first: a client notices a missing model before a missing setting.
    return [...Map.groupBy(ofKind, ({ why }) => why).values()].toSorted(
      (a, b) => Number(isModel(b[0]!)) - Number(isModel(a[0]!)),
    )
  })
  const folded = fold(groups)
  const shown = folded.length > MOST_LINES ? folded.slice(0, MOST_LINES - 1) : folded
  const left = folded.slice(shown.length)
  const lines = shown.map(group => summaryLine(group, source))
  if (left.length > 0) lines.push(`${left.flat().length} more remarks of ${left.length} kinds: ${rest}`)
  return lines.map(line => `  ${line}\n`).join('')
}

/** If there are too many lines, the settings with the fewest remarks share one line. */
function fold(groups: readonly (readonly Remark[])[]): readonly (readonly Remark[])[] {
  const settings = groups.filter(([first]) => first!.kind === 'lost' && !isModel(first!))
  const many = Math.min(settings.length, groups.length - MOST_LINES + 1)
  if (groups.length <= MOST_LINES || many < 2) return groups
  const least = new Set(settings.toSorted((a, b) => a.length - b.length).slice(0, many))
  const at = groups.findIndex(group => least.has(group))
  return groups.flatMap((group, index) => (index === at ? [[...least].flat()] : least.has(group) ? [] : [group]))
}

function isModel({ path }: Remark): boolean {
  return /(^|\.)model_list\[/.test(path)
}

/** `Not converted: 3 settings: a cache is a step; add the step cache (first: config.yaml:15 litellm_settings.cache)`. */
function summaryLine(group: readonly Remark[], source: string): string {
  const [first] = group as [Remark]
  const rows = new Set(group.map(({ path }) => /^.*?model_list\[\d+\]/.exec(path)?.[0] ?? path)).size
  const noun = group.every(isModel) ? 'model' : 'setting'
  const many = first.path === '' ? '' : `${rows} ${noun}${rows === 1 ? '' : 's'}: `
  const isFolded = group.some(({ why }) => why !== first.why)
  const names = [...new Set(group.map(({ path }) => path.split('.').pop()!))].join(', ')
  const text = first.kind === 'unneeded' ? 'the gateway does not need them' : isFolded ? names : sentenceOf(first)
  const place = `${source}:${first.line} ${first.what ?? first.path}`.trimEnd()
  return `${TITLES[first.kind]}: ${many}${text} (${rows > 1 ? 'first: ' : ''}${place})`
}
