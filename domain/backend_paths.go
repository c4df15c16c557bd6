package domain

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// A pathRule is one of v1alpha1.Paths: its name there, its value, what may
// stand in braces in it, and what must.
type pathRule struct {
	name         string
	of           func(*v1alpha1.Paths) string
	needs        []need
	placeholders []string
}

// A need are placeholders without which things of two kinds would share a file:
// all of one of its sets must be there.
type need struct {
	sets [][]string
	// or is what would happen else.
	or string
}

var (
	perInstance  = need{[][]string{{"uid"}, {"namespace", "name"}}, "two instances would share it"}
	perVolume    = need{[][]string{{"volume"}}, "two volumes of an instance would share it"}
	perHostDisk  = need{[][]string{{"path"}, {"uid", "volume"}, {"namespace", "name", "volume"}}, "two host disks would share it"}
	perClaim     = need{[][]string{{"namespace", "claim"}, {"uid", "claim"}, {"uid", "volume"}, {"namespace", "name", "volume"}}, "two claims would share it"}
	perContainer = need{[][]string{
		{"image"}, {"uid", "index"}, {"uid", "volume"}, {"namespace", "name", "index"}, {"namespace", "name", "volume"},
	}, "two container disks would share it"}
)

// The path rules. Every one knows {namespace}, {name} and {uid}.
var (
	socketsRule       = rule("sockets", func(p *v1alpha1.Paths) string { return p.Sockets }, []need{perInstance})
	nvramRule         = rule("nvram", func(p *v1alpha1.Paths) string { return p.NVRAM }, []need{perInstance})
	hostDiskRule      = rule("hostDisk", func(p *v1alpha1.Paths) string { return p.HostDisk }, []need{perHostDisk}, "volume", "path", "base")
	claimRule         = rule("claim", func(p *v1alpha1.Paths) string { return p.Claim }, []need{perClaim}, "volume", "claim")
	blockClaimRule    = rule("blockClaim", func(p *v1alpha1.Paths) string { return p.BlockClaim }, []need{perClaim}, "volume", "claim")
	containerDiskRule = rule("containerDisk", func(p *v1alpha1.Paths) string { return p.ContainerDisk }, []need{perContainer}, "volume", "image", "index")
	overlayRule       = rule("overlay", func(p *v1alpha1.Paths) string { return p.Overlay }, []need{perInstance, perVolume}, "volume")
	emptyDiskRule     = rule("emptyDisk", func(p *v1alpha1.Paths) string { return p.EmptyDisk }, []need{perInstance, perVolume}, "volume")
	cloudInitRule     = rule("cloudInit", func(p *v1alpha1.Paths) string { return p.CloudInit }, []need{perInstance}, "volume", "format")
	dataRule          = rule("data", func(p *v1alpha1.Paths) string { return p.Data }, []need{perInstance, perVolume}, "volume", "kind", "folder", "file")
)

var pathRules = []pathRule{
	socketsRule, nvramRule, hostDiskRule, claimRule, blockClaimRule,
	containerDiskRule, overlayRule, emptyDiskRule, cloudInitRule, dataRule,
}

func rule(name string, of func(*v1alpha1.Paths) string, needs []need, more ...string) pathRule {
	return pathRule{name: name, of: of, needs: needs, placeholders: append([]string{"namespace", "name", "uid"}, more...)}
}

// origin is the rule as who says where something is.
func (r pathRule) origin() string { return "the backend profile's rule paths." + r.name }

// checkApart says what a path rule must have lest things share a file.
func (r pathRule) checkApart(template string) error {
	for _, n := range r.needs {
		met := slices.ContainsFunc(n.sets, func(set []string) bool {
			return !slices.ContainsFunc(set, func(name string) bool { return !strings.Contains(template, "{"+name+"}") })
		})
		if !met {
			return fmt.Errorf("must have %s, or %s", n, n.or)
		}
	}
	return nil
}

// String is what must be there, in words.
func (n need) String() string {
	sets := make([]string, len(n.sets))
	for i, set := range n.sets {
		sets[i] = "{" + strings.Join(set, "} and {") + "}"
	}
	return strings.Join(sets, " or ")
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
// leads out of its folder, and no two lead to one file: see FileName. {path}
// alone stands for folders too.
func (h *host) expand(r pathRule, values map[string]string) string {
	template := r.of(h.settings.Paths)
	if err := r.check(template); err != nil {
		h.refusePath(r, template, err.Error())
		return ""
	}
	known := h.names()
	maps.Copy(known, values)
	parts := strings.Split(path.Clean(inBraces.ReplaceAllStringFunc(template, func(found string) string {
		name := strings.Trim(found, "{}")
		if name == "path" || known[name] == "" {
			return known[name]
		}
		return FileName(known[name])
	})), "/")
	for i := range parts {
		parts[i] = shortened(parts[i])
	}
	return strings.Join(parts, "/")
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

// maxSocketPath is the longest path that a UNIX socket of Linux can have.
const maxSocketPath = 107

// socket is the path of the socket of a device, which is at a field of the
// instance. What is wrong with it is said once.
func (h *host) socket(name string, at *field.Path) string {
	file := h.beside(name)
	known := slices.ContainsFunc(h.errs, func(e *field.Error) bool { return e.Field == at.String() })
	if len(file) > maxSocketPath && !known {
		h.refuse(field.Invalid(at, file, fmt.Sprintf(
			"this would be its socket, and a socket has at most %d bytes: the backend profile's paths.sockets must be shorter, or the name of what it is for", maxSocketPath)))
	}
	return file
}

// beside is the path of a file beside the instance's sockets.
func (h *host) beside(name string) string {
	folder := h.expand(socketsRule, nil)
	if folder == "" {
		return ""
	}
	return path.Join(folder, FileName(name))
}
