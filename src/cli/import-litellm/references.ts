/** References to environment variables in LiteLLM's file. */
import type { TextValue } from './read.ts'

/** LiteLLM's own form, and that of template tools that run before LiteLLM. */
export const REFERENCE = /os\.environ\/([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)(?::?[-?+=][^}]*)?\}/g

/** Escapes a text for gateway.yaml, where `${` begins a reference. */
export function literal(text: string): string {
  // A function, because `$$` in a replacement text means one dollar.
  return text.replaceAll('${', () => '$${')
}

/** The variable that is the whole value; null: it is other text. */
export function referenceIn({ text }: TextValue): string | null {
  const [match] = text.matchAll(REFERENCE)
  return match?.[0] === text ? (match[1] ?? match[2]!) : null
}

/** Whether the value contains a reference. */
export function hasReference({ text }: TextValue): boolean {
  return text.search(REFERENCE) >= 0
}
