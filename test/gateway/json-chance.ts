/** Random choices from a seed, and random spellings of JSON. */
import { seeded } from '../helpers/seeded.ts'

/** The choices of one seed. */
export class Chance {
  private readonly random: () => number

  constructor(seed: number) {
    this.random = seeded(seed)
  }

  /** A whole number from 0. */
  below(most: number): number {
    return Math.floor(this.random() * most)
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }
  /** JSON text with random blanks, order and escapes. */
  spell(value: unknown): string {
    const blank = () => (this.below(4) === 0 ? this.pick([' ', '\n', '\t', '\r\n', '   ']) : '')
    if (typeof value === 'string') return this.quote(value)
    if (typeof value === 'number') return this.number(value)
    if (Array.isArray(value))
      return `[${blank()}${value.map(item => this.spell(item)).join(`${blank()},${blank()}`)}${blank()}]`
    if (typeof value !== 'object' || value === null) return String(value)
    const members = Object.entries(value)
      .sort(() => this.random() - 0.5)
      .map(([key, inner]) => `${this.quote(key)}${blank()}:${blank()}${this.spell(inner)}`)
    return `{${blank()}${members.join(`${blank()},${blank()}`)}${blank()}}`
  }
  private quote(text: string): string {
    const plain = JSON.stringify(text)
    if (this.below(8) > 0) return plain
    const escaped = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
    return `"${[...text].map(letter => (letter.length > 1 || this.below(3) > 0 ? JSON.stringify(letter).slice(1, -1) : escaped(letter))).join('')}"`
  }
  private number(value: number): string {
    if (Object.is(value, -0)) return '-0'
    if (!Number.isInteger(value) || this.below(4) > 0) return String(value)
    return this.pick([`${value}.0`, `${value}e0`, `${value}E+00`, value === 0 ? '0e9' : `${value}0e-1`])
  }
}
