/** Wraps text for terminals. */
import { visible } from '#contract'

const WIDTH = 100

/** Wraps a text at 100 columns by default; lines after the first are indented by two more. */
export function wrapped(text: string, indent: string, width = WIDTH): string {
  const lines: string[] = []
  let line = ''
  for (const word of visible(text).split(' ')) {
    const before = lines.length === 0 ? indent : `${indent}  `
    const longer = line === '' ? `${before}${word}` : `${line} ${word}`
    if (longer.length <= width || line === '') line = longer
    else {
      lines.push(line)
      line = `${indent}  ${word}`
    }
  }
  return [...lines, line].map(each => each.trimEnd()).join('\n')
}
