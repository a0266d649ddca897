/**
 * Names of tools. The client may put tools into namespaces (`{ type: 'namespace', name, tools }`), where the canonical
 * format knows flat names only: so such a tool is called by both, and a call of it is told by both again.
 */
import { createHash } from 'node:crypto'
import type { ClientTool } from './client-tools.ts'
import { wrongValue } from './read.ts'

/** What the client calls a tool. */
export interface ToolName {
  readonly name: string
  /** Null: it stands in none. */
  readonly namespace: string | null
  /** The client's own search for further tools, of which calls are told in another form. */
  readonly isSearch?: boolean
  /** A tool that OpenAI defines and the client runs, of which calls have a form of their own too. */
  readonly clientTool?: ClientTool
}

/** What a search for tools is called where it is a function like any other. */
export const SEARCH: ToolName = { name: 'tool_search', namespace: null, isSearch: true }

/** Longer names are refused by most providers. */
const LONGEST = 64
const DIGEST = 8

/** The flat name: `crm__find` of `find` in `crm`. The same in every request, as earlier calls are sent along. */
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

  /** Throws a refusal when a tool in a namespace cannot be told from another one. */
  add(tool: ToolName, place: string): string {
    const flat = flatName(tool)
    const other = this.#byFlat.get(flat)
    if (other && (other.namespace !== null || tool.namespace !== null)) {
      throw wrongValue(place, `with its namespace the tool is called '${flat}', and so is another one`)
    }
    if (other && other.clientTool !== tool.clientTool) {
      throw wrongValue(place, `a tool is called '${flat}', and so is another one of another type`)
    }
    this.#byFlat.set(flat, tool)
    return flat
  }

  /** Whether this tool was named before. */
  has({ name, namespace }: ToolName): boolean {
    const known = this.#byFlat.get(flatName({ name, namespace }))
    return known?.name === name && known.namespace === namespace
  }

  /** A name that the model said. */
  find(flat: string): ToolName {
    return this.#byFlat.get(flat) ?? { name: flat, namespace: null }
  }
}
