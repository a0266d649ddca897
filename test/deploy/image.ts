/**
 * The image of the Containerfile, really built and run where there is no registry of images and no container engine: buildah builds it
 * on base images that are made from Debian's packages under the names that the file asks for, and the kernel's namespaces run it as an
 * engine would, with a root that cannot be written. The base images are kept from one run to the next.
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

/** Why no image can be built here; null: one can. */
export const WITHOUT_IMAGES = !isAble
  ? 'building an image needs Linux and root'
  : missing.length > 0
    ? `there is no ${missing.join(', ')} (apt-get install ${missing.join(' ')})`
    : null

const FOLDER = join(TOOLS, 'images')
const NAME = 'localhost/tollgate-test'
const CA = '/usr/local/etc/ca.crt'
const MAX_WAIT_MS = 30_000

/** What the image says about how to run it. */
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
  /** What the image's user could write, were it not for the read-only root: no links, and not what is for everybody (/tmp). */
  writable(): string[]
  run(folders: { readonly configuration: string; readonly state: string }): Container
  remove(): Promise<void>
}

export interface Container {
  /** Resolves with all that was said when it fits. */
  waitFor(fits: RegExp): Promise<string>
  /** The kernel's words about its first process (proc_pid_status(5)). */
  status(): Readonly<Record<string, string>>
  /** Runs a program in it, as its user. */
  execute(program: string, ...args: readonly string[]): { readonly code: number | null; readonly out: string }
  /** SIGTERM to its first process; resolves with the exit code. */
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

/** Builds the image and lays it out as a folder. */
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

/** Base images under the names in the file: first the one for building, then the one for running, which is a part of it. */
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

/** Where this machine's npm finds packages, and whom it trusts. */
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

/** In namespaces of its own: $1 is the root, $2 the configuration, $3 its state, $4 the user, and the rest is the command. */
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
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', text => {
      said += text
    })
  }
  /** The first process of the container, as it is called outside. */
  const first = () => Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'))
  const [uid, gid] = User.split(':')
  return {
    async waitFor(fits) {
      for (let waited = 0; !fits.test(said); waited += 50) {
        if (waited > MAX_WAIT_MS) throw new Error(`the container never said ${fits}, but:\n${said}`)
        await wait(50)
      }
      return said
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
