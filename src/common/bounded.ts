/**
 * A map in memory that strangers cannot fill: beyond so many names, the one that was used longest ago is forgotten.
 */
import { LRUCache } from 'lru-cache'

const ONE = () => 1

/**
 * Counted by size, each name as 1: with `max` the package makes room for all of them at once, which takes 8 ms and half a
 * megabyte for 65,536 names, also where there will be ten.
 */
export function boundedMap<V extends {}>(most: number): LRUCache<string, V> {
  return new LRUCache<string, V>({ maxSize: most, sizeCalculation: ONE })
}
