/** References to variables of the environment in LiteLLM's file. */
import type { TextValue } from './read.ts'

/** LiteLLM's own form, and that of the tools that fill in a template before LiteLLM reads it. */
export const REFERENCE = /os\.environ\/([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)(?::?[-?+=][^}]*)?\}/g

/** As text that stands for itself in gateway.yaml, where `${` begins a reference. */
export function literal(text: string): string {
  // A function, because in a replacement that is a text two dollars are one.
  return text.replaceAll('${', () => '$${')
}

/** The variable that the whole value comes from; null: it is a text of its own. */
export function referenceIn({ text }: TextValue): string | null {
  const [match] = text.matchAll(REFERENCE)
  return match?.[0] === text ? (match[1] ?? match[2]!) : null
}

/** Whether the value or a part of it comes from the environment. */
export function hasReference({ text }: TextValue): boolean {
  return text.search(REFERENCE) >= 0
}
