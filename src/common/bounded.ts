/** A map with a maximum number of names, so that clients cannot fill the memory. The least recently used name is dropped. */
import { LRUCache } from 'lru-cache'

const ONE = () => 1

/**
 * Limits by size, with 1 for each name. With `max` the package allocates space for all names at once. For 65,536 names this takes 8 ms
 * and half a megabyte, even if ten are used.
 */
export function boundedMap<V extends {}>(most: number): LRUCache<string, V> {
  return new LRUCache<string, V>({ maxSize: most, sizeCalculation: ONE })
}
