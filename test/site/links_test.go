package site

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

const built = "../../dist/site"

// base returns the path for which make site built the site.
func base() string {
	return strings.TrimSuffix(os.Getenv("SITE_BASE"), "/") + "/"
}

// requireSite skips a test if the site is not built.
func requireSite(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(built, "index.html")); err == nil {
		return
	}
	if os.Getenv("VIRTWRIGHT_BROWSER") == "require" {
		t.Fatal("dist/site is missing: run make site")
	}
	t.Skip("dist/site is missing: run make site (VIRTWRIGHT_BROWSER=require fails instead)")
}

// A page is what links refer to, and what a page refers to.
type page struct {
	ids    map[string]bool
	links  []string
	policy string
}

// TestLinks checks that each link, image and script of the site leads to a file of the site, and
// each anchor to an element.
func TestLinks(t *testing.T) {
	requireSite(t)
	pages := readPages(t)
	if len(pages) < 100 {
		t.Errorf("the site has only %d pages", len(pages))
	}
	for name, from := range pages {
		for _, link := range from.links {
			if problem := follow(pages, base()+name, link, base()); problem != "" {
				t.Errorf("%s: %s: %s", name, link, problem)
			}
		}
	}
}

// TestFollow checks that TestLinks finds wrong links.
func TestFollow(t *testing.T) {
	pages := map[string]*page{"a/index.html": {ids: map[string]bool{"one": true}}, "b.html": {}}
	for link, want := range map[string]string{
		"#one": "", "#two": "no element has this id", "/site/a/#one": "", "../b.html": "", "../b.html#one": "no element has this id",
		"/site/c.html": "no such file", "https://example.com/c.html": "", "mailto:a@example.com": "", "/b.html": "outside the site",
	} {
		if got := follow(pages, "/site/a/index.html", link, "/site/"); got != want {
			t.Errorf("%s: got %q, want %q", link, got, want)
		}
	}
}

// TestPolicies checks that the policy of each page allows no inline scripts but its own.
func TestPolicies(t *testing.T) {
	requireSite(t)
	for name, from := range readPages(t) {
		_, scripts, _ := strings.Cut(from.policy, "script-src ")
		scripts, _, _ = strings.Cut(scripts, ";")
		if !strings.HasPrefix(from.policy, "default-src 'none'; ") || !strings.HasPrefix(scripts, "'self'") || strings.Contains(scripts, "unsafe-inline") {
			t.Errorf("%s: content security policy %q", name, from.policy)
		}
	}
}

func readPages(t *testing.T) map[string]*page {
	t.Helper()
	pages := map[string]*page{}
	err := fs.WalkDir(os.DirFS(built), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		file, err := os.Open(filepath.Join(built, name))
		if err != nil {
			return err
		}
		defer file.Close()
		root, err := html.Parse(file)
		if err != nil {
			return err
		}
		found := &page{ids: map[string]bool{}}
		for node := range root.Descendants() {
			found.add(node)
		}
		pages[name] = found
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func (p *page) add(node *html.Node) {
	attributes := map[string]string{}
	for _, attribute := range node.Attr {
		attributes[attribute.Key] = attribute.Val
	}
	if id, ok := attributes["id"]; ok {
		p.ids[id] = true
	}
	for _, key := range []string{"href", "src"} {
		if link, ok := attributes[key]; ok {
			p.links = append(p.links, link)
		}
	}
	if attributes["http-equiv"] == "Content-Security-Policy" {
		p.policy = attributes["content"]
	}
}

// follow returns why a link of a page leads nowhere. It is empty for links to other sites.
func follow(pages map[string]*page, from, link, base string) string {
	to, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if to.Scheme != "" || to.Host != "" {
		return ""
	}
	start := &url.URL{Path: from}
	name, inside := strings.CutPrefix(start.ResolveReference(to).Path, base)
	if !inside {
		return "outside the site"
	}
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	target, isPage := pages[name]
	if !isPage {
		if info, err := os.Stat(filepath.Join(built, name)); err != nil || info.IsDir() {
			return "no such file"
		}
		return ""
	}
	if to.Fragment != "" && !target.ids[to.Fragment] {
		return "no element has this id"
	}
	return ""
}
