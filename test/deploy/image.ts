/**
 * Builds and runs the image of the Containerfile without an image registry or a container engine. buildah builds it on base
 * images of Debian's packages, under the names in the file. The kernel's namespaces run it as an engine would, with a read-only
 * root. The base images are kept between runs.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { findProgram, TOOLS } from '../helpers/programs.ts'
import { ROOT, read } from '../helpers/repository.ts'

const missing = ['buildah', 'mmdebstrap'].filter(name => findProgram(name) === null)
const isAble = process.platform === 'linux' && process.getuid?.() === 0

/** Why no image can be built here; null if one can. */
export const WITHOUT_IMAGES = !isAble
  ? 'building an image needs Linux and root'
  : missing.length > 0
    ? `${missing.join(', ')} not found (apt-get install ${missing.join(' ')})`
    : null

const FOLDER = join(TOOLS, 'images')
const NAME = 'localhost/tollgate-test'
const CA = '/usr/local/etc/ca.crt'
const MAX_WAIT_MS = 30_000

/** The image's settings for running it. */
interface ImageConfig {
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly Env: readonly string[]
  readonly User: string
  readonly WorkingDir: string
}

export interface Image {
  has(path: string): boolean
  read(path: string): string
  /** Paths that the image's user could write on a writable root, without links and world-writable folders such as /tmp. */
  writable(): string[]
  run(folders: { readonly configuration: string; readonly state: string }): Container
  remove(): Promise<void>
}

export interface Container {
  /** Resolves with the whole output once it matches. */
  waitFor(pattern: RegExp): Promise<string>
  /** Fields of `/proc/PID/status` for its first process (proc_pid_status(5)). */
  status(): Readonly<Record<string, string>>
  /** Runs a program in the container, as its user. */
  execute(program: string, ...args: readonly string[]): { readonly code: number | null; readonly out: string }
  /** Sends SIGTERM to its first process; resolves with the exit code. */
  stop(): Promise<number | null>
}

async function execute(program: string, ...args: readonly string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/' })
  let [out, all] = ['', '']
  child.stdout.setEncoding('utf8').on('data', text => {
    out += text
    all += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    all += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}:\n${all}`)
  return out.trim()
}

const PLACES = ['--root', join(FOLDER, 'storage'), '--runroot', join(FOLDER, 'run'), '--storage-driver', 'vfs']
const buildah = (command: string, ...args: readonly string[]) => execute('buildah', ...PLACES, command, ...args)
const isThere = (image: string) => spawnSync('buildah', [...PLACES, 'inspect', '--type', 'image', image]).status === 0

/** Builds the image and unpacks it into a folder. */
export async function buildImage(): Promise<Image> {
  await makeBases()
  const how = ['--isolation', 'chroot', '--pull-never', '--format', 'docker', '--quiet']
  await buildah('build', ...how, '--file', join(ROOT, 'src/deploy/Containerfile'), '--tag', NAME, ROOT)
  const { Docker } = JSON.parse(await buildah('inspect', '--type', 'image', NAME))
  const container = await buildah('from', '--pull-never', NAME)
  const root = await buildah('mount', container)
  const { config } = Docker as { config: ImageConfig }
  return {
    has: path => lstatSync(join(root, path), { throwIfNoEntry: false }) !== undefined,
    read: path => readFileSync(join(root, path), 'utf8'),
    writable: () => writableIn(root, config),
    run: folders => runContainer(root, config, folders),
    remove: async () => {
      await buildah('rm', container)
      await buildah('rmi', NAME)
      await buildah('rmi', '--prune', '--force')
    },
  }
}

/** Creates the base images under the names in the file: the runtime image, and the build image on top of it. */
async function makeBases(): Promise<void> {
  const names = Array.from(read('src/deploy/Containerfile').matchAll(/^FROM (\S+)/gm), ([, name]) => name!)
  const [forBuild, forRun] = names as [string, string]
  mkdirSync(FOLDER, { recursive: true })
  if (!isThere(forRun)) {
    const [, suite] = /:(\w+)-slim$/.exec(forRun)!
    const archive = join(FOLDER, `${suite}.tar`)
    await execute('mmdebstrap', '--variant=minbase', suite!, archive)
    const container = await buildah('from', 'scratch')
    await buildah('add', container, archive, '/')
    await commit(container, forRun)
  }
  if (!isThere(forBuild)) {
    const container = await buildah('from', '--pull-never', forRun)
    const run = (...command: readonly string[]) => buildah('run', '--isolation', 'chroot', container, '--', ...command)
    await run('sh', '-c', 'apt-get update && apt-get install --yes --no-install-recommends libatomic1')
    const npm = await execute('npm', 'root', '--global')
    await buildah('add', container, realpathSync(join(ROOT, 'node_modules/.bin/node')), '/usr/local/bin/node')
    await buildah('add', container, join(npm, 'npm'), '/usr/local/lib/node_modules/npm')
    await run('ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', '/usr/local/bin/npm')
    await addNpmSettings(container)
    await commit(container, forBuild)
  }
}

/** Copies the registry and the certificate authorities of this machine's npm. */
async function addNpmSettings(container: string): Promise<void> {
  const [registry, authorities] = await Promise.all(
    ['registry', 'cafile'].map(name => execute('npm', 'config', 'get', name)),
  )
  const settings = [`registry=${registry}`]
  if (existsSync(authorities!)) {
    await buildah('add', container, authorities!, CA)
    settings.push(`cafile=${CA}`)
  }
  const file = join(FOLDER, 'npmrc')
  writeFileSync(file, `${settings.join('\n')}\n`)
  await buildah('add', container, file, '/usr/local/etc/npmrc')
}

async function commit(container: string, image: string): Promise<void> {
  await buildah('commit', container, image)
  await buildah('rm', container)
}

function writableIn(root: string, { User }: ImageConfig): string[] {
  const find = [
    'find',
    '/',
    '-xdev',
    '-writable',
    '-not',
    '-type',
    'l',
    '-not',
    '-path',
    '/dev/*',
    '-not',
    '-perm',
    '-1002',
  ]
  const { stdout } = spawnSync('chroot', [`--userspec=${User}`, '--groups=', root, ...find], { encoding: 'utf8' })
  return stdout.trim().split('\n').sort()
}

/** Runs in its own namespaces. $1: root, $2: configuration, $3: state, $4: user; the rest is the command. */
const SCRIPT = `
root=$1 configuration=$2 state=$3 user=$4
shift 4
mount --bind "$root" "$root"
mount --bind "$configuration" "$root/etc/tollgate"
mount -o remount,bind,ro "$root/etc/tollgate"
mount --bind "$state" "$root/etc/tollgate/.tollgate"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
for device in null urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"
`

function runContainer(
  root: string,
  { Entrypoint, Cmd, Env, User, WorkingDir }: ImageConfig,
  { configuration, state }: { readonly configuration: string; readonly state: string },
): Container {
  mkdirSync(join(configuration, '.tollgate'))
  const inside = ['env', '-i', `--chdir=${WorkingDir}`, ...Env, ...Entrypoint, ...Cmd]
  const places = [root, configuration, state, User]
  const namespaces = ['--mount', '--pid', '--fork', '--kill-child']
  const child = spawn('unshare', [...namespaces, 'sh', '-ec', SCRIPT, 'sh', ...places, ...inside])
  const exited = once(child, 'close')
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', text => {
      output += text
    })
  }
  /** The PID of the first process of the container, as seen outside of it. */
  const first = () => Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'))
  const [uid, gid] = User.split(':')
  return {
    async waitFor(pattern) {
      for (let waitedMs = 0; !pattern.test(output); waitedMs += 50) {
        if (waitedMs > MAX_WAIT_MS)
          throw new Error(`the container did not print ${pattern} within ${MAX_WAIT_MS} ms; its output:\n${output}`)
        await wait(50)
      }
      return output
    },
    status: () => {
      const lines = readFileSync(`/proc/${first()}/status`, 'utf8').matchAll(/^(\w+):\t(\S+)/gm)
      return Object.fromEntries(Array.from(lines, ([, name, value]) => [name!, value!]))
    },
    execute(...command) {
      const as = ['--setuid', uid!, '--setgid', gid!]
      const where = ['--target', String(first()), '--mount', '--pid', '--root', '--wd']
      const { status, stdout, stderr } = spawnSync('nsenter', [...where, ...as, 'env', '-i', ...Env, ...command], {
        encoding: 'utf8',
      })
      return { code: status, out: `${stdout}${stderr}` }
    },
    async stop() {
      process.kill(first(), 'SIGTERM')
      const [code] = await exited
      return code as number | null
    },
  }
}
