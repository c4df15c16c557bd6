package blueprint

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Names that are not those of leaves. NAME is what other makers of templates
// call the name of the VM.
const (
	labelsName = "LABELS"
	vmName     = "NAME"
	suffixName = "DATA_VOLUME_SUFFIX"
)

// A part is a key of a path, with the indexes that follow it; a name consists of
// those that are used.
type part struct {
	text string
	word string // the text as it is in names
	item bool
	used bool
}

// name gives every site with a class its parameter's name: of a leaf, the
// items on the way to it, or the parent if there are none, and its key. Those
// that are equal take in ancestors, the nearest first, until they differ; keys
// that differ only in what names cannot hold are numbered. Names that keys
// mention are left alone, as engines would put a value there.
func name(d *draft) error {
	if d.captured != nil {
		return d.captured
	}
	var leaves []*site
	for _, s := range d.sites {
		if s.class != "" && s.class != Literal && s.class != Generated {
			s.parts = partsOf(s.at)
			leaves = append(leaves, s)
		}
	}
	distinguish(leaves)
	taken := d.reserved
	natural := map[string]bool{}
	for _, s := range leaves {
		s.name = joined(s.parts, false)
		natural[s.name] = true
	}
	for _, s := range leaves {
		s.name = free(s.name, taken, natural)
	}
	d.nameOthers(taken)
	return nil
}

// nameOthers names what is no leaf.
func (d *draft) nameOthers(taken map[string]bool) {
	literals := 0
	for _, s := range d.sites {
		switch s.class {
		case Generated:
			s.name = d.suffix(taken)
		case Literal:
			s.name = literal(&literals, taken)
		}
	}
}

// free is a name that nothing has: itself, or with the least number behind it.
func free(name string, taken, natural map[string]bool) string {
	found := name
	for n := 2; taken[found] || found != name && natural[found]; n++ {
		found = name + "_" + strconv.Itoa(n)
	}
	taken[found] = true
	return found
}

func literal(next *int, taken map[string]bool) string {
	for {
		found := "LITERAL" + strconv.Itoa(*next)
		*next++
		if !taken[found] {
			taken[found] = true
			return found
		}
	}
}

// suffix is the name of the one parameter that all renamed volumes share.
func (d *draft) suffix(taken map[string]bool) string {
	if d.suffixed == "" {
		d.suffixed = free(suffixName, taken, nil)
	}
	return d.suffixed
}

func partsOf(at path) []part {
	if at.inInstance() {
		at = at[len(instance):]
	}
	var parts []part
	for _, s := range at {
		switch {
		case !s.item:
			parts = append(parts, part{text: s.key})
		case len(parts) == 0: // no path begins with an item
		case parts[len(parts)-1].item:
			parts[len(parts)-1].text += "_" + strconv.Itoa(s.index)
		default:
			last := &parts[len(parts)-1]
			last.text, last.item = singular(last.text)+strconv.Itoa(s.index), true
		}
	}
	use(parts)
	return parts
}

// use marks the key, and the items before it or else the parent.
func use(parts []part) {
	last := len(parts) - 1
	items := false
	for i := range parts {
		parts[i].word = word(parts[i].text)
		parts[i].used = parts[i].item || i == last
		items = items || parts[i].item && i < last
	}
	if !items && last > 0 {
		parts[last-1].used = true
	}
}

// distinguish takes ancestors into names that are equal, as long as that can
// tell them apart.
func distinguish(leaves []*site) {
	for extended := true; extended; {
		groups := map[string][]*site{}
		for _, s := range leaves {
			short := joined(s.parts, false)
			groups[short] = append(groups[short], s)
		}
		extended = false
		for _, group := range groups {
			whole := joined(group[0].parts, true)
			if !slices.ContainsFunc(group[1:], func(s *site) bool { return joined(s.parts, true) != whole }) {
				continue
			}
			for _, s := range group {
				extended = extend(s.parts) || extended
			}
		}
	}
}

// extend uses the nearest ancestor that is not.
func extend(parts []part) bool {
	for i := range slices.Backward(parts) {
		if !parts[i].used {
			parts[i].used = true
			return true
		}
	}
	return false
}

// joined writes the parts that are used, or all.
func joined(parts []part, all bool) string {
	words := make([]string, 0, len(parts))
	for _, p := range parts {
		if (p.used || all) && p.word != "" {
			words = append(words, p.word)
		}
	}
	found := strings.Join(words, "_")
	if found == "" || found[0] >= '0' && found[0] <= '9' {
		return "_" + found
	}
	return found
}

// word is a key as it is in names: in capitals, with its words apart (secureBoot
// is SECURE_BOOT, ramFB RAM_FB, base64Data BASE64_DATA, but hugepages-2Mi
// HUGEPAGES_2MI), and nothing that names cannot have.
func word(key string) string {
	var out strings.Builder
	apart := false
	runes := []rune(key)
	for i, r := range runes {
		upper := unicode.ToUpper(r)
		if upper > 'Z' || upper < '0' || upper > '9' && upper < 'A' {
			apart = true
			continue
		}
		if out.Len() > 0 && (apart || unicode.IsUpper(r) && wordBegins(runes, i)) {
			out.WriteByte('_')
		}
		out.WriteRune(upper)
		apart = false
	}
	return out.String()
}

func wordBegins(runes []rune, i int) bool {
	before := i - 1
	for before > 0 && unicode.IsDigit(runes[before]) {
		before--
	}
	switch previous := runes[before]; {
	case unicode.IsLower(previous):
		return true
	case unicode.IsUpper(previous):
		return before < i-1 || i+1 < len(runes) && unicode.IsLower(runes[i+1])
	}
	return false
}

// singular is the name of an item of a list of that name.
func singular(key string) string {
	if stem, ok := strings.CutSuffix(key, "ies"); ok {
		return stem + "y"
	}
	for _, ending := range []string{"sses", "xes", "ches", "shes"} {
		if strings.HasSuffix(key, ending) {
			return strings.TrimSuffix(key, "es")
		}
	}
	if strings.HasSuffix(key, "ss") {
		return key
	}
	return strings.TrimSuffix(key, "s")
}
