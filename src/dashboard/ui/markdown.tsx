/** A model's answer with its Markdown, built from elements and never from HTML. */
import type { ComponentChildren, VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import { type Block, blocks, parcels, pieces } from '../lib/markdown.ts'
import { type Inline, inlines } from '../lib/markdown-inline.ts'
import { ScrollArea } from './table.tsx'

/**
 * The number of characters that are parsed. Later text is shown unparsed: hundreds of thousands of elements would freeze the
 * page.
 */
const MOST = 50_000

export function Markdown({ text }: { readonly text: string }): VNode {
  const head = text.slice(0, MOST)
  const parts = useMemo(() => pieces(head), [head])
  return (
    <div class="markdown">
      {parts.map((source, index) => (
        <Piece key={index} source={source} />
      ))}
      {parcels(text, MOST).map((parcel, index) => (
        <p key={`+${index}`}>{parcel}</p>
      ))}
    </div>
  )
}

/** Rendered again only if its source changes. While an answer grows, only the last piece changes. */
function Piece({ source }: { readonly source: string }): VNode {
  return useMemo(() => <>{blocks(source).map(show)}</>, [source])
}

function show(block: Block): VNode {
  switch (block.kind) {
    case 'text':
      return <p>{inlines(block.text).map(showInline)}</p>
    case 'rule':
      return <hr />
    case 'heading':
      // All levels become the level below the conversation's heading, because the levels of an answer need not be in sequence.
      return <h3 class={block.level < 3 ? 'markdown-large' : ''}>{inlines(block.text).map(showInline)}</h3>
    case 'code':
      return (
        <ScrollArea label="Code">
          <pre class="code-block">
            <code>{block.text}</code>
          </pre>
        </ScrollArea>
      )
    case 'quote':
      return <blockquote>{block.blocks.map(show)}</blockquote>
    case 'list': {
      const items = block.items.map((item, index) => <li key={index}>{item.map(show)}</li>)
      return block.start === null ? <ul>{items}</ul> : <ol start={block.start}>{items}</ol>
    }
    case 'table':
      return <Rows rows={block.rows} />
  }
}

function Rows({ rows: [head = [], ...rows] }: { readonly rows: readonly (readonly string[])[] }): VNode {
  const cell = (text: string): ComponentChildren => inlines(text).map(showInline)
  return (
    <ScrollArea label="Table">
      <table>
        <thead>
          <tr>
            {head.map((text, index) => (
              <th key={index} scope="col">
                {cell(text)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((text, column) => (
                <td key={column}>{cell(text)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  )
}

function showInline(inline: Inline): ComponentChildren {
  if (typeof inline === 'string') return inline
  switch (inline.kind) {
    case 'code':
      return <code class="code">{inline.text}</code>
    case 'link':
      // The title shows the address, because the label may be misleading.
      return (
        <a href={inline.href} title={inline.href} target="_blank" rel="noopener noreferrer nofollow">
          {inline.inside.map(showInline)}
        </a>
      )
    default: {
      const Element = inline.kind
      return <Element>{inline.inside.map(showInline)}</Element>
    }
  }
}
