/** The messages of a chat request. */
import type { ChatMessage } from '#contract'

/** Whether a message has instructions for the model; `developer` is the newer role for them. */
export function isInstruction({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer'
}
