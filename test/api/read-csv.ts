/** Reads a table strictly by RFC 4180, independently of our writer, to test it. Throws for anything else. */
export function readCsv(text: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  let at = 0
  while (at < text.length) {
    const [cell, end] = text[at] === '"' ? readQuoted(text, at + 1) : readPlain(text, at)
    row.push(cell)
    at = end
    if (text[at] === ',') at++
    else if (text.startsWith('\r\n', at)) {
      at += 2
      rows.push(row)
      row = []
    } else throw new Error(`neither a comma nor a line's end at ${at}`)
  }
  if (row.length > 0) throw new Error('the last line has no end')
  return rows
}

function readQuoted(text: string, start: number): [cell: string, end: number] {
  let cell = ''
  for (let at = start; at < text.length; at++) {
    if (text[at] !== '"') cell += text[at]
    else if (text[at + 1] !== '"') return [cell, at + 1]
    else cell += text[at++]
  }
  throw new Error('a quote has no end')
}

function readPlain(text: string, start: number): [cell: string, end: number] {
  let at = start
  while (at < text.length && text[at] !== ',' && !text.startsWith('\r\n', at)) {
    if (text[at] === '"') throw new Error(`a quote within plain text at ${at}`)
    at++
  }
  return [text.slice(start, at), at]
}
