package domain

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// A pathRule is one of v1alpha1.Paths: its name, its value, the placeholders that it needs, and all
// placeholders that it may have.
type pathRule struct {
	name         string
	of           func(*v1alpha1.Paths) string
	needs        []need
	placeholders []string
}

// A need are placeholders without which two things would share a file: one of the sets must be
// complete.
type need struct {
	sets      [][]string
	otherwise string // the consequence of a missing set
}

var (
	perVMI       = need{[][]string{{"uid"}, {"namespace", "name"}}, "two VMIs would share it"}
	perVolume    = need{[][]string{{"volume"}}, "two volumes of a VMI would share it"}
	perHostDisk  = need{[][]string{{"path"}, {"uid", "volume"}, {"namespace", "name", "volume"}}, "two host disks would share it"}
	perClaim     = need{[][]string{{"namespace", "claim"}, {"uid", "claim"}, {"uid", "volume"}, {"namespace", "name", "volume"}}, "two claims would share it"}
	perContainer = need{[][]string{
		{"image"}, {"uid", "index"}, {"uid", "volume"}, {"namespace", "name", "index"}, {"namespace", "name", "volume"},
	}, "two container disks would share it"}
)

// The path rules. Every rule may have {namespace}, {name} and {uid}.
var (
	socketsRule       = rule("sockets", func(p *v1alpha1.Paths) string { return p.Sockets }, []need{perVMI})
	nvramRule         = rule("nvram", func(p *v1alpha1.Paths) string { return p.NVRAM }, []need{perVMI})
	hostDiskRule      = rule("hostDisk", func(p *v1alpha1.Paths) string { return p.HostDisk }, []need{perHostDisk}, "volume", "path", "base")
	claimRule         = rule("claim", func(p *v1alpha1.Paths) string { return p.Claim }, []need{perClaim}, "volume", "claim")
	blockClaimRule    = rule("blockClaim", func(p *v1alpha1.Paths) string { return p.BlockClaim }, []need{perClaim}, "volume", "claim")
	containerDiskRule = rule("containerDisk", func(p *v1alpha1.Paths) string { return p.ContainerDisk }, []need{perContainer}, "volume", "image", "index")
	overlayRule       = rule("overlay", func(p *v1alpha1.Paths) string { return p.Overlay }, []need{perVMI, perVolume}, "volume")
	emptyDiskRule     = rule("emptyDisk", func(p *v1alpha1.Paths) string { return p.EmptyDisk }, []need{perVMI, perVolume}, "volume")
	cloudInitRule     = rule("cloudInit", func(p *v1alpha1.Paths) string { return p.CloudInit }, []need{perVMI}, "volume", "format")
	dataRule          = rule("data", func(p *v1alpha1.Paths) string { return p.Data }, []need{perVMI, perVolume}, "volume", "kind", "folder", "file")
)

var pathRules = []pathRule{
	socketsRule, nvramRule, hostDiskRule, claimRule, blockClaimRule,
	containerDiskRule, overlayRule, emptyDiskRule, cloudInitRule, dataRule,
}

func rule(name string, of func(*v1alpha1.Paths) string, needs []need, more ...string) pathRule {
	return pathRule{name: name, of: of, needs: needs, placeholders: append([]string{"namespace", "name", "uid"}, more...)}
}

func (r pathRule) origin() string { return "the backend profile's rule paths." + r.name }

func (r pathRule) checkNeeds(template string) error {
	for _, n := range r.needs {
		texts := make([]string, len(n.sets))
		met := false
		for i, set := range n.sets {
			texts[i] = "{" + strings.Join(set, "} and {") + "}"
			met = met || !slices.ContainsFunc(set, func(name string) bool { return !strings.Contains(template, "{"+name+"}") })
		}
		if !met {
			return fmt.Errorf("must contain %s, or %s", strings.Join(texts, " or "), n.otherwise)
		}
	}
	return nil
}

var inBraces = regexp.MustCompile(`\{[^{}]*\}`)

// check checks the form of a path rule. {path} is an absolute path itself.
func (r pathRule) check(template string) error {
	rest := template
	for _, found := range inBraces.FindAllString(template, -1) {
		if !slices.Contains(r.placeholders, strings.Trim(found, "{}")) {
			return fmt.Errorf("%s is not a placeholder of this path: supported placeholders: {%s}", found, strings.Join(r.placeholders, "}, {"))
		}
		rest = strings.Replace(rest, found, "x", 1)
	}
	switch {
	case !strings.HasPrefix(template, "/") && !strings.HasPrefix(template, "{path}"):
		return errors.New("must be an absolute path")
	case strings.ContainsAny(rest, "{}"):
		return errors.New("must not have an unmatched brace")
	case slices.Contains(strings.Split(rest, "/"), ".."):
		return errors.New(`must not contain ".."`)
	case strings.HasSuffix(rest, "/"):
		return errors.New("must not end in /")
	}
	return nil
}

// expand returns the path of a rule. Values become file names, so that none leads out of its folder
// and no two lead to one file: see fileName. Only {path} may contain folders.
func (h *host) expand(r pathRule, values map[string]string) string {
	template := r.of(h.settings.Paths)
	if err := r.check(template); err != nil {
		invalid := field.Invalid(field.NewPath("paths", r.name), template, "the path rule of the backend profile: "+err.Error())
		if !h.rejected(invalid.Field) {
			h.reject(invalid)
		}
		return ""
	}
	known := map[string]string{"namespace": h.vmi.Namespace, "name": h.vmi.Name, "uid": string(h.vmi.UID)}
	maps.Copy(known, values)
	parts := strings.Split(path.Clean(inBraces.ReplaceAllStringFunc(template, func(found string) string {
		name := strings.Trim(found, "{}")
		if name == "path" || known[name] == "" {
			return known[name]
		}
		return fileName(known[name])
	})), "/")
	for i := range parts {
		parts[i] = shortened(parts[i])
	}
	return strings.Join(parts, "/")
}

// rejected reports whether there is an error about a field.
func (h *host) rejected(at string) bool {
	return slices.ContainsFunc(h.errs, func(e *field.Error) bool { return e.Field == at })
}

// maxSocketPath is the longest path of a UNIX socket in Linux.
const maxSocketPath = 107

// socket returns the path of the socket of a device. An error about the field is reported once.
func (h *host) socket(name string, at *field.Path) string {
	file := h.runtimeFile(name)
	if len(file) > maxSocketPath && !h.rejected(at.String()) {
		h.reject(field.Invalid(at, file, fmt.Sprintf(
			"its socket would have this path, which is longer than %d bytes: shorten paths.sockets of the backend profile, or the names in it", maxSocketPath)))
	}
	return file
}

// runtimeFile returns the path of a file in the folder of the VMI's sockets.
func (h *host) runtimeFile(name string) string {
	folder := h.expand(socketsRule, nil)
	if folder == "" {
		return ""
	}
	return path.Join(folder, fileName(name))
}

const (
	maxFileName  = 255 // the longest file name of Linux, in bytes
	shortDigest  = 8   // the number of bytes of the digest that tells long names apart
	maxExtension = 16  // the longest extension that a shortened name keeps
)

// fileName returns text as a file name. As in a URL, slashes, backslashes, percent signs, spaces,
// characters that cannot be printed, and the first dot of a name of dots are percent-encoded. No
// two texts have the same name; one that is too long for a file ends in a digest of it. Kubernetes
// names do not change; quay.io/os/fedora:42 becomes quay.io%2Fos%2Ffedora:42.
func fileName(text string) string {
	var out strings.Builder
	dots := strings.Trim(text, ".") == ""
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		if isPlain(r) && (i > 0 || !dots) {
			out.WriteRune(r)
			continue
		}
		for _, b := range []byte(text[i : i+size]) {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	if out.Len() == 0 {
		return "%" // the name of no other text
	}
	return shortened(out.String())
}

// isPlain reports whether a character is not encoded.
func isPlain(r rune) bool {
	return r != '/' && r != '\\' && r != '%' && r != utf8.RuneError && unicode.IsPrint(r) && !unicode.IsSpace(r)
}

// shortened replaces the middle of a name that is too long by a digest, after a percent sign that
// no other name has.
func shortened(name string) string {
	if len(name) <= maxFileName {
		return name
	}
	ending := path.Ext(name)
	if len(ending) > maxExtension {
		ending = ""
	}
	sum := sha256.Sum256([]byte(name))
	tail := fmt.Sprintf("%%-%x%s", sum[:shortDigest], ending)
	return strings.ToValidUTF8(name[:maxFileName-len(tail)], "") + tail
}
