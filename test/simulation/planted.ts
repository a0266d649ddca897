/**
 * Bugs that the simulation must find: each is a small careless change of the product's source. A bug that a thousand seeds do not find
 * shows a gap in the simulation.
 */

export interface PlantedBug {
  readonly name: string
  /** The broken behaviour. */
  readonly what: string
  /** Texts that occur exactly once in their files, and their replacements. */
  readonly changes: readonly { readonly file: string; readonly old: string; readonly new: string }[]
}

const CREDITS = 'plugins/credits/index.ts'
const SET_ASIDE = 'plugins/credits/reserve-credit.ts'
const SETTLE = 'plugins/credits/settle.ts'
const CHARGE = 'plugins/credits/charge.ts'
const PRICE = 'src/contract/units.ts'
const LEDGER = 'src/store/money/ledger.ts'
const GROUP = 'src/store/engine/group.ts'
const RECOVERY = 'src/store/money/recovery.ts'
const BACKLOG = 'src/store/money/backlog.ts'
const WRITES = 'src/store/write-services.ts'
const STREAM = 'src/request/answer/stream.ts'
const PUMP = 'src/request/answer/pump.ts'
const CLIENT = 'src/request/answer/client.ts'
const CHAT = 'src/request/send/chat.ts'
const GATEWAY = 'src/gateway.ts'
const ATTEMPT = 'src/providers/attempt.ts'
const BATCHES = 'src/store/engine/postgres/ledger-batches.ts'
const STORE = 'src/store/engine/sqlite.ts'

const one = (name: string, what: string, file: string, old: string, changed: string): PlantedBug => ({
  name,
  what,
  changes: [{ file, old, new: changed }],
})

export const PLANTED: readonly PlantedBug[] = [
  one(
    'no-settle-on-leaving',
    'a client that disconnects leaves a hold behind',
    CREDITS,
    'return settle(books, settlement(exchange, charge, code))',
    "if (exchange.outcome === 'client_left') return\n        return settle(books, settlement(exchange, charge, code))",
  ),
  one(
    'settled-twice',
    'a repeated settle posts again',
    LEDGER,
    "if (!putSettle(request, held.account, now)) return correct(request, held) ? 'corrected' : 'already_settled'",
    'putSettle(request, held.account, now)',
  ),
  one(
    'no-credit-check',
    'a hold is written without enough credit',
    LEDGER,
    'if (available(balance) >= amount) return null',
    'if (available(balance) >= 0n) return null',
  ),
  one(
    'dispatch-before-hold',
    'the request is sent while its hold is being written',
    SET_ASIDE,
    'return books.ledger.hold({',
    'return (given => (void books.ledger.hold(given).catch(() => {}), Promise.resolve({ held: true, available: 0n })))({',
  ),
  one(
    'rounded-down',
    'a part of a nano-dollar is not charged',
    PRICE,
    '(sum + DENOMINATOR - 1n) / DENOMINATOR',
    'sum / DENOMINATOR',
  ),
  one(
    'price-as-float',
    'money is converted to a number',
    PRICE,
    '(sum + DENOMINATOR - 1n) / DENOMINATOR',
    'BigInt(Math.round(Number(sum) / Number(DENOMINATOR)))',
  ),
  one(
    'refund-forgotten',
    'a settled amount stays held',
    LEDGER,
    'balance.held -= held.amount',
    'balance.held -= 0n * held.amount',
  ),
  one(
    'recovery-forgets-holds-without-checkpoints',
    "a dead process's hold without a checkpoint stays open",
    RECOVERY,
    'const holds = await reads.orphanedHolds(dead)',
    'const holds = (await reads.orphanedHolds(dead)).filter(({ checkpoint }) => checkpoint)',
  ),
  one(
    'first-checkpoint-wins',
    'a killed stream is charged at its first checkpoint',
    RECOVERY,
    'ORDER BY seq DESC LIMIT 1',
    'ORDER BY seq LIMIT 1',
  ),
  one(
    'abort-not-passed',
    'the provider continues for a client that has disconnected',
    ATTEMPT,
    'this.#over()\n    this.#abortTransport?.()\n  }',
    'this.#over()\n  }',
  ),
  one(
    'done-behind-error',
    'a failed answer looks complete',
    STREAM,
    'this.#client.endStream(this.#format.fail(refusal))',
    'this.#client.endStream(Buffer.concat([this.#format.fail(refusal), DONE]))',
  ),
  one(
    'finish-before-settle',
    'the end of an answer is sent before its charge is on disk',
    CHAT,
    'if (!isWhole) return new StreamReply(',
    'if (!isWhole) exchange.stream?.finish(null)\n      if (!isWhole) return new StreamReply(',
  ),
  one(
    'failed-commit-is-done',
    'a failed COMMIT is reported as done',
    GROUP,
    'doubt(group, results)\n      tryAgain(group, error)\n      return',
    'doubt(group, results)\n      work.rollback()',
  ),
  one(
    'spool-not-replayed',
    'spooled settles are lost at the next start',
    RECOVERY,
    'for (let lines = spool.read(); lines.length > done; lines = spool.read()) {',
    'for (let lines = spool.read(); lines.length > done; done = lines.length) {\n    break',
  ),
  one(
    'memory-forgets',
    'settles that neither the database nor the spool accepts are lost',
    BACKLOG,
    'if (!isOnDisk) this.#charges.set(request.exchange, request)',
    '',
  ),
  one(
    'doubt-forgotten',
    'a hold that may have been written stays open',
    BACKLOG,
    'this.#doubts.set(request.exchange, request)',
    '',
  ),
  one(
    'let-out-unwritten',
    'the end of an answer is sent although its charge is in memory only',
    SETTLE,
    "log.error(owed, 'failed to write a settle and to spool it; it waits in memory')",
    "{\n      log.error(owed, 'failed to write a settle and to spool it; it waits in memory')\n      return\n    }",
  ),
  one(
    'no-first-byte-deadline',
    'the gateway waits for a silent provider without end',
    ATTEMPT,
    '} else if (now - this.#startedMs > timeouts.firstByteMs) {',
    '} else if (now - this.#startedMs > 1e9) {',
  ),
  one(
    'idle-deadline-while-empty',
    'the gateway waits too long for a provider that stops in the middle',
    ATTEMPT,
    'if (now - this.#lastMs > timeouts.idleMs)',
    'if (now - this.#lastMs > 10 * timeouts.idleMs)',
  ),
  one(
    'usage-not-clamped',
    'a provider may report more output than its cap',
    CHARGE,
    'WHOLES.includes(unit) ? (most[unit] ?? 0) : MAX_COUNT',
    "WHOLES.includes(unit) && unit !== 'output' ? (most[unit] ?? 0) : MAX_COUNT",
  ),
  one(
    'silent-end',
    'a broken stream ends as if it were complete',
    GATEWAY,
    'if (reply) reply.fail(refusal)',
    "if (reply) client.endStream(Buffer.from('\\n'))",
  ),
  one(
    'dispatch-after-disconnect',
    'the request is sent for a client that has disconnected meanwhile',
    CHAT,
    'if (exchange.stopped) {\n      this.#resolve(stoppedReply(exchange))\n      return\n    }\n    if (chat.stream)',
    'if (chat.stream)',
  ),
  one(
    'usage-not-awaited',
    'the usage is lost if a client disconnects after the finish reason',
    PUMP,
    'if (this.parts.meter.complete) this.awaitUsage()\n    else if',
    'if',
  ),
  one(
    'content-behind-the-finish',
    'content behind the finish reason is delivered and not charged',
    'src/request/answer/meter.ts',
    "if (this.#choices[index] === 'finished') this.#goesOn = true\n    else",
    "if (this.#choices[index] === 'finished') return\n    else",
  ),
  one(
    'finish-in-the-middle',
    'a stream that continues behind its finish reason and breaks counts as a complete answer',
    'src/request/answer/meter.ts',
    'if (!this.finished || this.#goesOn || this',
    'if (!this.finished || this',
  ),
  one(
    'prompt-for-nothing',
    'a client that disconnects before the first token gets the prompt for free',
    PUMP,
    'if (meter.left && !meter.finished && this.source?.isBillable) meter.abandoned = true',
    '',
  ),
  one(
    'prompt-of-what-was-not-sent',
    'a client that disconnects while its request waits for a connection pays for the prompt',
    ATTEMPT,
    "return this.isSent && this.#phase !== 'error'",
    "return this.#phase !== 'error'",
  ),
  one(
    'stall-without-end',
    'a client that stops reading keeps its exchange for ever',
    CLIENT,
    'if (now - this.#blockedSince > this.#stallMs) this.#response.destroy()',
    'if (now - this.#blockedSince > 1e9) this.#response.destroy()',
  ),
  one(
    'broken-stream-ends-cleanly',
    'a failed stream ends without an error',
    STREAM,
    'this.#client.endStream(this.#format.fail(refusal))',
    'this.#client.endStream(Buffer.alloc(0))',
  ),
  one(
    'settle-of-the-hold',
    'the whole hold is charged instead of the counted usage',
    CHARGE,
    "return { ...charge, overrun: 0n, source: ending.reasoning ? 'estimated_low' : 'estimated' }",
    "return { ...charge, amount: bounds.hold, overrun: 0n, source: ending.reasoning ? 'estimated_low' : 'estimated' }",
  ),
  one(
    'grant-acknowledged-too-early',
    'a top-up is acknowledged before it is written',
    WRITES,
    "const granted = await writer.op('credit', grant)",
    "void writer.op('credit', grant).catch(() => {})\n      const granted = true",
  ),
  one(
    'cancelled-late',
    'the answer of a disconnected client is drained although the policy requests cancel',
    PUMP,
    "else if (this.parts.onDisconnect === 'drain' && this.source?.isSent)",
    'else if (this.source?.isSent)',
  ),
]

/** Bugs in code that only a store in PostgreSQL runs. */
export const PLANTED_IN_POSTGRES: readonly PlantedBug[] = [
  one(
    'refusal-taken-for-a-hold',
    'a hold that the server refuses counts as held',
    BATCHES,
    "if (answer === 'held') {",
    "if (answer === 'held' || answer === 'account') {",
  ),
  one(
    'checkpoint-of-the-tokens',
    'a checkpoint has tokens instead of money',
    BATCHES,
    'id: exchange, amount: String(amount),',
    'id: exchange, amount: String(usage.output ?? 0),',
  ),
  one(
    'answers-out-of-order',
    'a group reads the answers of its operations from the end',
    BATCHES,
    'for (const [line, row] of rows().entries()) {',
    'for (const [line, row] of rows().toReversed().entries()) {',
  ),
  one(
    'former-forgotten',
    'a restarted replica leaves the holds of its former process to others',
    STORE,
    'known !== null && isReplica(first, known) ? known.id : null',
    'known !== null && isReplica(first, known) ? null : null',
  ),
]
