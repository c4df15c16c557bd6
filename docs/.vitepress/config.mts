import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { defineConfig, type MarkdownOptions } from 'vitepress'
import type { Plugin } from 'vite'
import { description, excluded, icon, opening, repository, root, served, sidebar, target, version } from './repository.mts'

const { name, sentences } = opening()

/** The base path of the site, with a slash at its end. */
const base = (process.env.SITE_BASE ?? '').replace(/\/?$/, '/')

/** Returns the anchor of a heading, as forges do. test/docs checks links by the same rule. */
const slugify = (text: string) =>
  text.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')

/** Renders Markdown as forges do: without HTML, Vue's braces, attributes and emoji. */
const markdown: MarkdownOptions = {
  theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  html: false,
  attrs: { disable: true },
  anchor: { slugify },
  toc: { slugify },
  config(md) {
    md.disable('emoji')
    const text = md.renderer.rules.text!
    md.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;')
    md.core.ruler.push('repository', (state) => {
      if (state.env.relativePath === 'index.md') dropOpening(state.tokens)
      for (const token of state.tokens.flatMap((token) => token.children ?? [])) {
        if (token.type !== 'link_open') continue
        const href = token.attrGet('href')!
        if (href.startsWith('/')) {
          token.attrSet('href', base + href.slice(1)) // a plain file: the browser opens it, not the router
          token.attrSet('target', '_self')
        } else token.attrSet('href', target(state.env.relativePath, href))
      }
    })
  },
}

/** Removes the first heading and the first paragraph, which the hero of the front page shows. */
function dropOpening(tokens: { type: string }[]) {
  tokens.splice(0, tokens.findIndex((token) => token.type === 'paragraph_close') + 1)
}

/** A content security policy that allows the page's own inline scripts by their hashes. */
function policy(html: string): string {
  const inline = [...html.matchAll(/<script(?![^>]*\ssrc=)[^>]*>([^]*?)<\/script>/g)]
  const hashes = inline.map((m) => `'sha256-${createHash('sha256').update(m[1]).digest('base64')}'`)
  const directives = [
    "default-src 'none'", `script-src 'self' ${hashes.join(' ')}`, "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:", "font-src 'self'", "connect-src 'self'", "frame-src 'self'",
    "base-uri 'none'", "form-action 'none'",
  ]
  return `<meta http-equiv="Content-Security-Policy" content="${directives.join('; ')}">`
}

/** Resolves Vue for pages outside this folder, and for pages without a file. */
const vue: Plugin = {
  name: 'vue-of-pages',
  enforce: 'pre',
  resolveId(id, importer) {
    if (/^vue(\/|$)/.test(id) && importer?.includes('.md')) return this.resolve(id, path.join(root, 'docs/package.json'))
  },
}

export default defineConfig({
  title: name,
  description: sentences[0],
  lang: 'en',
  base,
  srcDir: root,
  srcExclude: excluded,
  outDir: path.join(root, 'dist/site'),
  metaChunk: true,
  vite: { plugins: [vue] },
  // Addresses follow the repository. README.md is the index of its folder.
  rewrites: (page) => page.replace(/^docs\/files\//, '').replace(/(^|\/)README\.md$/, '$1index.md'),
  head: [['link', { rel: 'icon', href: icon }]],
  markdown,
  // The date of the last commit of a page. Copies without history have no dates, or wrong ones.
  lastUpdated: fs.existsSync(path.join(root, '.git')) && !fs.existsSync(path.join(root, '.git/shallow')),
  transformHead: ({ title, description }) =>
    Object.entries({ title, description, type: 'website', site_name: name })
      .map(([property, content]) => ['meta', { property: `og:${property}`, content }]),
  transformPageData(page) {
    if (page.params) {
      Object.assign(page.frontmatter, { prev: false, next: false, editLink: false, lastUpdated: false })
      page.description = `${page.params.file} of the source of ${name}`
    } else page.description = description(page.filePath)
    if (page.relativePath !== 'index.md') return
    page.title = name
    page.titleTemplate = ':title'
    page.description = sentences[0]
    page.frontmatter = {
      layout: 'home',
      hero: {
        name,
        text: sentences[0].replace(`${name} `, '').replace(/^./, (c) => c.toUpperCase()),
        tagline: sentences.slice(1).join(' '),
        actions: [
          { theme: 'brand', text: 'First steps', link: '/docs/first-steps' },
          { theme: 'alt', text: 'Documentation', link: '/docs/' },
          { theme: 'alt', text: 'Playground', link: '/playground/', target: '_self' },
        ],
      },
    }
  },
  transformHtml: (html) => html.replace('<meta charset="utf-8">', (charset) => charset + policy(html)),
  buildEnd(site) {
    for (const file of served()) {
      const copy = path.join(site.outDir, file.replace(/(^|\/)\./g, '$1'))
      fs.mkdirSync(path.dirname(copy), { recursive: true })
      fs.copyFileSync(path.join(root, file), copy)
    }
  },
  themeConfig: {
    nav: [
      { text: 'Documentation', link: '/docs/', activeMatch: '^/docs/' },
      { text: 'Examples', link: '/examples/', activeMatch: '^/examples/' },
      { text: 'Playground', link: '/playground/', target: '_self' },
      { text: version, link: '/docs/CHANGELOG' },
    ],
    logo: icon,
    sidebar: sidebar(),
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/:path`, text: 'Edit this page' },
    lastUpdated: { text: 'Last change', formatOptions: { dateStyle: 'medium' } },
    outline: [2, 3],
    search: { provider: 'local', options: { detailedView: true } },
    notFound: { quote: 'The site has no page at this address.', linkText: 'Front page', linkLabel: 'Front page' },
  },
})
