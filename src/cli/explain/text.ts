/** Lines that stay readable on a terminal of a hundred columns. */
import { visible } from '#contract'

const WIDTH = 100

/** A text in lines of at most a hundred columns; those after the first stand a little further in. */
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
