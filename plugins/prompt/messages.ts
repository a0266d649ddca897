/** The messages of a chat request. */
import type { ChatMessage } from '#contract'

/** What tells the model how to behave; `developer` is the newer word for it. */
export function isInstruction({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer'
}
