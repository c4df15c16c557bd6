// Reads the repository for the site: the sidebar from the index of the documentation, and the files
// and folders that pages link to.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** The root of the repository, which is also the root of the site's pages. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')

/** Globs of Markdown that is not a page: everything outside these folders and the root. */
export const excluded = ['!(charts|docs|examples)/**/*.md']

const fence = /^ *```[^]*?^ *```$/gm
const link = /\[([^\]]*)\]\(([^)\s]+)\)/g
const external = /^[a-z]+:|^\/|^#/

const read = (file: string) => fs.readFileSync(path.join(root, file), 'utf8')
const isFolder = (file: string) => fs.statSync(path.join(root, file)).isDirectory()
const exists = (file: string) => fs.existsSync(path.join(root, file))

/** The path from the root to which a link of a page leads. */
const resolve = (page: string, href: string) =>
  path.posix.join(path.posix.dirname(page), href.replace(/[?#].*$/, ''))

/** All links in a text, as text and target. Links to other sites and in code are left out. */
function links(text: string): [string, string][] {
  const found = [...text.replace(fence, '').matchAll(link)]
  return found.map((m) => [m[1].replaceAll('\n', ' '), m[2]] as [string, string]).filter(([, to]) => !external.test(to))
}

/**
 * The page of the site that shows a file or a folder of the repository. Names lose a leading dot,
 * because some servers hide such files.
 */
export function pageOf(file: string): string {
  file = file.replace(/\/$/, '')
  const shown = file.replace(/(^|\/)\./g, '$1')
  if (file.endsWith('.md')) return shown.replace(/(^|\/)README\.md$/, '$1index.md')
  return shown + (isFolder(file) ? '/index.md' : '.md')
}

/** The target of a link as a page of the site, with its anchor. Other links are unchanged. */
export function target(page: string, href: string): string {
  if (external.test(href)) return href
  const file = resolve(page, href)
  return exists(file) ? '/' + pageOf(file) + (href.match(/#.*$/)?.[0] ?? '') : href
}

/** All Markdown files of the documentation. */
function markdown(): string[] {
  const found = fs.readdirSync(root).filter((name) => name.endsWith('.md'))
  for (const folder of ['charts', 'docs', 'examples']) {
    const names = fs.readdirSync(path.join(root, folder), { recursive: true }) as string[]
    found.push(...names.filter((n) => n.endsWith('.md') && !n.includes('node_modules')).map((n) => path.posix.join(folder, n)))
  }
  return found
}

/** The files and folders that pages link to and that have no page of their own. */
export function linked(): string[] {
  const found = new Set<string>()
  for (const page of markdown()) {
    for (const [, href] of links(read(page))) {
      const file = resolve(page, href).replace(/\/$/, '')
      const own = file.endsWith('.md') || file.endsWith('.svg') || exists(file + '/README.md')
      if (exists(file) && !own) found.add(file)
    }
  }
  return [...found].sort()
}

/** Files that the site also serves unchanged, so that kubectl can apply them. */
export const served = () => linked().filter((file) => /\.(ya?ml|sh)$/.test(file))

/** A file as Markdown: a block of code. A folder: the doc comment of its package, and its files. */
export function show(file: string, known: string[]): string {
  if (!isFolder(file)) {
    const raw = served().includes(file) ? `[Plain file](/${file.replace(/(^|\/)\./g, '$1')})\n\n` : ''
    return `# \`${file}\`\n\n${raw}\`\`\`\`\`${path.extname(file).slice(1).replace('mts', 'ts') || 'text'}\n${read(file)}\`\`\`\`\`\n`
  }
  const entries = fs.readdirSync(path.join(root, file)).filter((name) => name !== 'node_modules')
  const rows = entries.map((name) => {
    const inside = `${file}/${name}`
    if (isFolder(inside)) name += '/'
    return known.includes(inside) ? `* [${name}](${name})` : `* \`${name}\``
  })
  return `# \`${file}\`\n\n${purpose(file, entries)}\n\n${rows.join('\n')}\n`
}

/** The doc comment of the Go package in a folder, as text. */
function purpose(folder: string, entries: string[]): string {
  for (const name of entries.filter((name) => name.endsWith('.go'))) {
    const comment = read(`${folder}/${name}`).match(/^((?:\/\/ ?.*\n)+)package /m)
    if (comment) return comment[1].replace(/^\/\/ ?/gm, '').trim().replace(/[*_<\\[\]`]/g, '\\$&')
  }
  return ''
}

type Item = { text: string; link?: string; items?: Item[]; collapsed?: boolean }

/** The sidebar: the sections of an index page, with the pages that each section links to. */
export function sidebar(index = 'docs/README.md'): Item[] {
  return read(index).split(/^## /m).slice(1).map((section) => {
    const [heading] = section.split('\n', 1)
    return { text: heading.split(':')[0], items: links(section).map(([text, href]) => item(index, text, href)) }
  })
}

/** The title of a page. */
const title = (file: string) => read(file).match(/^# (.+)$/m)![1]

/** An entry of the sidebar. The decisions and the rules open to lists of their own. */
function item(index: string, text: string, href: string): Item {
  const entry: Item = { text, link: target(index, href) }
  const file = resolve(index, href)
  if (file === 'docs/decisions/README.md') {
    entry.items = sidebar(file)
    entry.collapsed = true
    for (const group of entry.items) group.collapsed = true
  }
  if (file === 'docs/rules.md') {
    const pages = new Set(links(read(file)).map(([, to]) => resolve(file, to)))
    entry.items = [...pages].map((page) => ({ text: title(page).split(': ')[1], link: '/' + pageOf(page) }))
    entry.collapsed = true
  }
  return entry
}

/** The first paragraph of a page as plain text, for search engines. */
export function description(file: string): string {
  const blocks = read(file).replace(fence, '').split('\n\n')
  const text = blocks.find((block) => /^[A-Za-z`["]/.test(block)) ?? ''
  const plain = text.replace(link, '$1').replace(/[`*<>]/g, '').replaceAll('"', "'").replaceAll('\n', ' ')
  return plain.length > 160 ? plain.slice(0, 160).replace(/\S*$/, '…') : plain
}

/** The address of the repository, from the path of the Go module, and the version of the chart. */
export const repository = 'https://' + read('go.mod').match(/^module (.+)$/m)![1]
export const version = read('charts/virtwright/Chart.yaml').match(/^version: (.+)$/m)![1]

/** The icon of the site, as an address. */
export const icon = 'data:image/svg+xml,' + encodeURIComponent(read('docs/.vitepress/favicon.svg').trim())

/** The first heading and the first paragraph of the README, in sentences. */
export function opening(): { name: string; sentences: string[] } {
  const [, name, paragraph] = read('README.md').match(/^# (.+)\n\n([^]*?)\n\n/)!
  return { name, sentences: paragraph.replaceAll('\n', ' ').split(/(?<=\.) /) }
}
