/**
 * Names of tools. The client may put tools into namespaces (`{ type: 'namespace', name, tools }`), but the canonical format has flat
 * names only. So both names are joined, and split again in calls.
 */
import { createHash } from 'node:crypto'
import type { ClientTool } from './client-tools.ts'
import { wrongValue } from './read.ts'

/** The client's name of a tool. */
export interface ToolName {
  readonly name: string
  /** Null without a namespace. */
  readonly namespace: string | null
  /** The client's own search for further tools, whose calls have another form. */
  readonly isSearch?: boolean
  /** A tool that OpenAI defines and the client runs, whose calls also have another form. */
  readonly clientTool?: ClientTool
}

/** The name of a search for tools as a function. */
export const SEARCH: ToolName = { name: 'tool_search', namespace: null, isSearch: true }

/** Most providers refuse longer names. */
const LONGEST = 64
const DIGEST = 8

/** The flat name: `crm__find` for `find` in `crm`. It is always the same, because earlier calls are sent again. */
export function flatName({ name, namespace }: ToolName): string {
  if (namespace === null) return name
  const joined = `${namespace}${namespace.endsWith('_') ? '' : '__'}${name}`
  if (joined.length <= LONGEST) return joined
  const digest = createHash('sha256').update(joined).digest('hex').slice(0, DIGEST)
  return `${joined.slice(0, LONGEST - DIGEST - 1)}_${digest}`
}

/** The tools of one request by their flat names. */
export class ToolNames {
  readonly #byFlat = new Map<string, ToolName>()

  /** Throws a refusal if the flat name of a tool in a namespace is already used. */
  add(tool: ToolName, place: string): string {
    const flat = flatName(tool)
    const other = this.#byFlat.get(flat)
    if (other && (other.namespace !== null || tool.namespace !== null)) {
      throw wrongValue(place, `with its namespace the tool is called '${flat}', but another tool has this name`)
    }
    if (other && other.clientTool !== tool.clientTool) {
      throw wrongValue(place, `a tool is called '${flat}', but a tool of another type has this name`)
    }
    this.#byFlat.set(flat, tool)
    return flat
  }

  /** Whether this tool was added before. */
  has({ name, namespace }: ToolName): boolean {
    const known = this.#byFlat.get(flatName({ name, namespace }))
    return known?.name === name && known.namespace === namespace
  }

  /** The client's name for a name from the model. */
  find(flat: string): ToolName {
    return this.#byFlat.get(flat) ?? { name: flat, namespace: null }
  }
}
