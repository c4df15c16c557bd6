package blueprint

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Reserved names. Other tools call the name of the VM NAME.
const (
	labelsName = "LABELS"
	vmName     = "NAME"
	suffixName = "DATA_VOLUME_SUFFIX"
)

// A part is a key of a path with the indexes that follow it. A name consists of the used parts.
type part struct {
	text string
	word string // the text in upper case with underscores
	item bool
	used bool
}

// name sets the parameter name of every site with a class. The name of a leaf has the list items on
// its path, or else its parent, and its key. Equal names are extended by ancestors, nearest first,
// until they differ, and else numbered. Names that keys mention are not used, because engines would
// replace them.
func name(d *draft) error {
	if d.reservedKey != nil {
		return d.reservedKey
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
	natural, next := map[string]bool{}, map[string]int{}
	for _, s := range leaves {
		s.name = joined(s.parts, false)
		natural[s.name] = true
	}
	for _, s := range leaves {
		s.name = free(s.name, taken, natural, next)
	}
	d.nameOthers(taken)
	return nil
}

func (d *draft) nameOthers(taken map[string]bool) {
	literals, suffix := 0, "" // all renamed volumes share the parameter of the suffix
	for _, s := range d.sites {
		switch s.class {
		case Generated:
			if suffix == "" {
				suffix = free(suffixName, taken, nil, map[string]int{})
			}
			s.name = suffix
		case Literal:
			s.name = literal(&literals, taken)
		}
	}
}

// free returns an unused name: the name itself, or the name with the lowest number. Next has the
// lowest number that may be unused, by name.
func free(name string, taken, natural map[string]bool, next map[string]int) string {
	found := name
	for n := max(2, next[name]); taken[found] || found != name && natural[found]; n++ {
		found, next[name] = name+"_"+strconv.Itoa(n), n+1
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

func partsOf(at path) []part {
	if at.inInstance() {
		at = at[len(instance):]
	}
	var parts []part
	for _, s := range at {
		switch {
		case !s.item:
			parts = append(parts, part{text: s.key})
		case len(parts) == 0: // paths do not begin with an item
		case parts[len(parts)-1].item:
			parts[len(parts)-1].text += "_" + strconv.Itoa(s.index)
		default:
			last := &parts[len(parts)-1]
			last.text, last.item = singular(last.text)+strconv.Itoa(s.index), true
		}
	}
	markUsed(parts)
	return parts
}

// markUsed marks the key, and the items before it or else the parent.
func markUsed(parts []part) {
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

// distinguish extends equal names by ancestors as long as that makes them differ.
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

func extend(parts []part) bool {
	for i := range slices.Backward(parts) {
		if !parts[i].used {
			parts[i].used = true
			return true
		}
	}
	return false
}

// joined joins the used parts, or all.
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

// word returns a key in upper case with underscores between words and in place of characters that
// names cannot have: secureBoot is SECURE_BOOT, ramFB RAM_FB, base64Data BASE64_DATA, hugepages-2Mi
// HUGEPAGES_2MI.
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

// singular returns the singular of the name of a list.
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
