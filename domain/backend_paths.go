package domain

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// A pathRule is one of v1alpha1.Paths: its name there, its value, and what may
// stand in braces in it.
type pathRule struct {
	name         string
	of           func(*v1alpha1.Paths) string
	placeholders []string
}

// The path rules. Every one knows {namespace}, {name} and {uid}.
var (
	socketsRule       = rule("sockets", func(p *v1alpha1.Paths) string { return p.Sockets })
	nvramRule         = rule("nvram", func(p *v1alpha1.Paths) string { return p.NVRAM })
	hostDiskRule      = rule("hostDisk", func(p *v1alpha1.Paths) string { return p.HostDisk }, "volume", "path")
	claimRule         = rule("claim", func(p *v1alpha1.Paths) string { return p.Claim }, "volume", "claim")
	blockClaimRule    = rule("blockClaim", func(p *v1alpha1.Paths) string { return p.BlockClaim }, "volume", "claim")
	containerDiskRule = rule("containerDisk", func(p *v1alpha1.Paths) string { return p.ContainerDisk }, "volume", "image", "index")
	overlayRule       = rule("overlay", func(p *v1alpha1.Paths) string { return p.Overlay }, "volume")
	emptyDiskRule     = rule("emptyDisk", func(p *v1alpha1.Paths) string { return p.EmptyDisk }, "volume")
	cloudInitRule     = rule("cloudInit", func(p *v1alpha1.Paths) string { return p.CloudInit }, "volume", "format")
	dataRule          = rule("data", func(p *v1alpha1.Paths) string { return p.Data }, "volume", "kind")
)

var pathRules = []pathRule{
	socketsRule, nvramRule, hostDiskRule, claimRule, blockClaimRule,
	containerDiskRule, overlayRule, emptyDiskRule, cloudInitRule, dataRule,
}

func rule(name string, of func(*v1alpha1.Paths) string, more ...string) pathRule {
	return pathRule{name: name, of: of, placeholders: append([]string{"namespace", "name", "uid"}, more...)}
}

// inBraces is a placeholder, or what looks like one.
var inBraces = regexp.MustCompile(`\{[^{}]*\}`)

// check says what is wrong with a path rule.
func (r pathRule) check(template string) error {
	rest := template
	for _, found := range inBraces.FindAllString(template, -1) {
		if !slices.Contains(r.placeholders, strings.Trim(found, "{}")) {
			return fmt.Errorf("%s does not stand for anything here; {%s} do", found, strings.Join(r.placeholders, "}, {"))
		}
		rest = strings.Replace(rest, found, "x", 1)
	}
	// {path} is an absolute path itself.
	absolute := strings.HasPrefix(template, "/") || strings.HasPrefix(template, "{path}")
	switch {
	case !absolute:
		return fmt.Errorf("must be an absolute path")
	case strings.ContainsAny(rest, "{}"):
		return fmt.Errorf("has a brace without its other half")
	case slices.Contains(strings.Split(rest, "/"), ".."):
		return fmt.Errorf("must not go up")
	case strings.HasSuffix(rest, "/"):
		return fmt.Errorf("must not end in /")
	}
	return nil
}

// expand is a path by a rule. Values are made names of files, so that none
// leads out of its folder: see fileName. {path} alone stands for folders too.
func (h *host) expand(r pathRule, values map[string]string) string {
	template := r.of(h.settings.Paths)
	if err := r.check(template); err != nil {
		h.refusePath(r, template, err.Error())
		return ""
	}
	known := h.names()
	maps.Copy(known, values)
	return path.Clean(inBraces.ReplaceAllStringFunc(template, func(found string) string {
		name := strings.Trim(found, "{}")
		if name == "path" {
			return known[name]
		}
		return fileName(known[name])
	}))
}

// refusePath says what is wrong with a path rule, once.
func (h *host) refusePath(r pathRule, value, why string) {
	err := field.Invalid(field.NewPath("paths", r.name), value, "the path rule of the backend profile: "+why)
	if !slices.ContainsFunc(h.errs, func(e *field.Error) bool { return e.Field == err.Field }) {
		h.refuse(err)
	}
}

// names are the placeholders that every path rule knows.
func (h *host) names() map[string]string {
	return map[string]string{"namespace": h.vmi.Namespace, "name": h.vmi.Name, "uid": string(h.vmi.UID)}
}

// fileName is text as the name of a file: _ stands for slashes, spaces and
// what cannot be printed, and for the dots of a name that has nothing else.
func fileName(text string) string {
	if strings.Trim(text, ".") == "" {
		return strings.Repeat("_", len(text))
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, text)
}

// maxSocketPath is the longest path that a UNIX socket of Linux can have.
const maxSocketPath = 107

// socket is the path of one of the instance's sockets.
func (h *host) socket(name string) string {
	folder := h.expand(socketsRule, nil)
	if folder == "" {
		return ""
	}
	at := path.Join(folder, fileName(name))
	if len(at) > maxSocketPath {
		h.refusePath(socketsRule, at, fmt.Sprintf("a socket has at most %d bytes", maxSocketPath))
	}
	return at
}
