/**
 * Converts the model's answer to output items, piece by piece: reasoning, a message or a call begins, grows and ends, each with events.
 * A whole answer is one large piece, so both give the same items.
 */

import type { Delta, InboundView, ToolCallDelta } from '#contract'
import { CompactionOutput } from './compaction.ts'
import type { Emit, ItemPlace, OpenItem, OutputItem } from './items.ts'
import { CallItem, ImageItem, imagesOf, MessageItem, ReasoningItem, type SealOptions } from './items.ts'
import type { ToolNames } from './names.ts'
import { isFields } from './read.ts'
import type { ReadRequest } from './request.ts'
import { keyOf, sealingOf } from './response.ts'
import { extraOf } from './sealed.ts'
import { citationsOf } from './searches.ts'

/** The writer for the answer to a request. */
export function outputFor(request: ReadRequest, view: InboundView, emit: Emit): Output | CompactionOutput {
  const key = keyOf(view)
  if (request.compacts) return new CompactionOutput(key, view.boxes, emit)
  return new Output(key, request.names, sealingOf(request.asked, view), emit)
}

interface Slot {
  readonly item: OpenItem
  done: OutputItem | null
}

class Output {
  readonly #key: string
  readonly #names: ToolNames
  readonly #sealing: SealOptions
  readonly #emit: Emit
  readonly #slots: Slot[] = []
  /** The open reasoning or message; calls grow in parallel. */
  #open: { readonly slot: Slot; readonly item: ReasoningItem | MessageItem } | null = null
  readonly #calls = new Map<number, CallItem>()
  /** Ids sent to the client. A provider may send one twice, but two calls must not have the same id. */
  readonly #callIds = new Set<string>()

  /** @param key part of every id */
  constructor(key: string, names: ToolNames, sealing: SealOptions, emit: Emit) {
    this.#key = key
    this.#names = names
    this.#sealing = sealing
    this.#emit = emit
  }

  /** Takes the delta of a choice, or the message of a whole answer. */
  add(delta: Delta, logprobs: readonly unknown[]): void {
    const reasoningText = delta.reasoning_content || delta['reasoning']
    if (typeof reasoningText === 'string' && reasoningText !== '') this.#reasoning().text(reasoningText)
    if (Array.isArray(delta['reasoning_details']) && delta['reasoning_details'].length > 0) {
      this.#reasoning().details(delta['reasoning_details'])
    }
    const extra = extraOf(delta)
    if (extra) this.#reasoning().extra(extra)
    if (typeof delta.content === 'string' && (delta.content !== '' || logprobs.length > 0)) {
      this.#message().text(delta.content, logprobs)
    }
    const quoted = citationsOf(delta['annotations'])
    if (quoted.length > 0 && this.#open?.item instanceof MessageItem) this.#open.item.annotations(quoted)
    if (typeof delta.refusal === 'string' && delta.refusal !== '') this.#message().refusal(delta.refusal)
    for (const image of imagesOf(delta['images'])) {
      this.#closeOpen()
      this.#close(this.#add(new ImageItem(this.#place('ig'), image)), 'completed')
    }
    if (!Array.isArray(delta.tool_calls)) return
    for (const [position, call] of delta.tool_calls.entries()) if (isFields(call)) this.#call(call, position)
  }

  /**
   * Ends open items and returns all items.
   * @param isCut whether the model was stopped, so that the last item is incomplete
   */
  end(isCut: boolean): readonly OutputItem[] {
    for (const call of this.#calls.values()) this.#begin(call)
    const hasAnswer = this.#slots.some(({ item }) => !(item instanceof ReasoningItem))
    // An empty answer still needs a message, because clients look for it.
    if (!hasAnswer && !isCut) this.#message().text('', [])
    for (const [index, slot] of this.#slots.entries()) {
      this.#close(slot, isCut && index === this.#slots.length - 1 ? 'incomplete' : 'completed')
    }
    this.#open = null
    return this.items()
  }

  /** The items in their current state. */
  items(): readonly OutputItem[] {
    return this.#slots.map(({ item, done }) => done ?? item.current('incomplete'))
  }

  #reasoning(): ReasoningItem {
    if (this.#open?.item instanceof ReasoningItem) return this.#open.item
    return this.#grow(new ReasoningItem(this.#place('rs'), this.#sealing))
  }

  #message(): MessageItem {
    if (this.#open?.item instanceof MessageItem) return this.#open.item
    return this.#grow(new MessageItem(this.#place('msg')))
  }

  #grow<Item extends ReasoningItem | MessageItem>(item: Item): Item {
    this.#closeOpen()
    this.#open = { slot: this.#add(item), item }
    return item
  }

  /** Ends the open reasoning or message, because another item begins. */
  #closeOpen(): void {
    if (this.#open) this.#close(this.#open.slot, 'completed')
    this.#open = null
  }

  #call(delta: ToolCallDelta, position: number): void {
    const index = Number.isInteger(delta.index) ? delta.index! : position
    let call = this.#calls.get(index)
    if (call && !call.continues(delta)) {
      // Some providers give all calls one index: the earlier call is kept under another key.
      this.#begin(call)
      this.#calls.set(-1 - this.#calls.size, call)
      call = undefined
    }
    if (!call) {
      call = new CallItem(this.#names)
      this.#calls.set(index, call)
    }
    call.add(delta)
    if (call.isNamed) this.#begin(call)
    const extra = extraOf(delta)
    if (extra && call.hasBegun) this.#sign(call)
  }

  /** Adds a call to the output, once its name is known. */
  #begin(call: CallItem): void {
    if (call.hasBegun) return
    const isFree = call.givenId !== '' && !this.#callIds.has(call.givenId)
    const callId = isFree ? call.givenId : `call_${this.#key}_${this.#callIds.size}`
    this.#callIds.add(callId)
    call.callId = callId
    this.#sign(call)
    this.#closeOpen()
    call.begin(this.#place(call.prefix))
    this.#add(call)
    call.open()
  }

  /** A call's `extra_content` is kept in a reasoning item, because clients keep no unknown members of calls. */
  #sign(call: CallItem): void {
    const extra = call.takeExtra()
    if (extra) this.#reasoning().call(call.callId, extra)
  }

  #place(prefix: string): ItemPlace {
    const index = this.#slots.length
    const id = `${prefix}_${this.#key}_${index}`
    return {
      index,
      id,
      emit: (type, event) => this.#emit(type, { item_id: id, output_index: index, ...event }),
    }
  }

  #add(item: OpenItem): Slot {
    const slot: Slot = { item, done: null }
    this.#emit('response.output_item.added', { output_index: this.#slots.length, item: item.current('in_progress') })
    this.#slots.push(slot)
    return slot
  }

  #close(slot: Slot, status: 'completed' | 'incomplete'): void {
    if (slot.done) return
    slot.item.close()
    slot.done = slot.item.current(status)
    this.#emit('response.output_item.done', { output_index: this.#slots.indexOf(slot), item: slot.done })
  }
}
