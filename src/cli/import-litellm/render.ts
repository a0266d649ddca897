/** An import as files and as the list that people read. */
import { stringify } from 'yaml'
import type { Imported } from './index.ts'
import type { Remark, RemarkKind } from './remarks.ts'

/**
 * The files by their path below the folder that they are for.
 * @param commands the command lines that make accounts and keys, whole
 */
export function filesOf(
  { gateway, policies, remarks, variables }: Imported,
  source: string,
  commands: readonly string[],
): Map<string, string> {
  const names = [...variables.keys()].toSorted()
  return new Map([
    [
      'gateway.yaml',
      `# Made from ${source}. \`tollgate check\` says what is wrong with it, IMPORTED.md what is not in it.\n${yaml(gateway)}`,
    ],
    ...Object.entries(policies).map(
      ([name, policy]) =>
        [
          `policies/${name}.yaml`,
          `# Made from ${source}: steps run from top to bottom, and nothing reorders them.\n${yaml(policy)}`,
        ] as const,
    ),
    ['IMPORTED.md', report(remarks, source, { names, commands })],
    ...(names.length === 0 ? [] : ([['.env.example', environment(names, source)]] as const)),
  ])
}

/** Names only: no value of the source gets here. */
function environment(names: readonly string[], source: string): string {
  return `# Made from ${source}: copy it to .env beside gateway.yaml, fill it in, and keep .env out of version control.\n${names.map(name => `${name}=\n`).join('')}`
}

function yaml(value: object): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })
}

const TITLES: Readonly<Record<RemarkKind, string>> = {
  lost: 'Not carried',
  changed: 'Carried, but not the same',
  yours: 'For you to do',
}

function report(
  remarks: readonly Remark[],
  source: string,
  { names, commands }: { readonly names: readonly string[]; readonly commands: readonly string[] },
): string {
  const parts = (Object.keys(TITLES) as RemarkKind[]).flatMap(kind => {
    const lines = remarks.filter(remark => remark.kind === kind).map(remark => `- ${remarkText(remark, source)}\n`)
    return lines.length === 0 ? [] : [`## ${TITLES[kind]}\n\n${lines.join('')}`]
  })
  const needed =
    names.length === 0
      ? []
      : [
          `## Variables\n\nThe environment, or \`.env\` beside gateway.yaml (copy \`.env.example\` and fill it in), has to hold:\n\n${names.map(name => `- \`${name}\`\n`).join('')}`,
        ]
  const keys = `## Accounts and keys

LiteLLM keeps keys, users, teams and what they have spent in its database; secrets are digested there and here, so they cannot be moved. Make
an account for each team or customer, and give out new keys; \`--cap\` is what \`max_budget\` was, \`--models\` what \`models\` was:

\`\`\`sh
${commands.map(command => `${command}\n`).join('')}\`\`\`
`
  return `# Imported from ${source}\n\n${[...parts, ...needed, keys].join('\n')}`
}

/** `config.yaml:12 model_list[0].litellm_params.tags: why; what instead`. */
export function remarkText({ line, path, why, instead }: Remark, source: string): string {
  return `${source}:${line}${path === '' ? '' : ` ${path}`}: ${why}${instead === null ? '' : `; ${instead}`}`
}

/** What is shown on a terminal: all remarks by their kind. */
export function summary(remarks: readonly Remark[], source: string): string {
  return (Object.keys(TITLES) as RemarkKind[])
    .flatMap(kind => {
      const lines = remarks.filter(remark => remark.kind === kind)
      if (lines.length === 0) return []
      return [`${TITLES[kind]} (${lines.length})\n${lines.map(remark => `  ${remarkText(remark, source)}\n`).join('')}`]
    })
    .join('\n')
}
