package presets

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/presets/provenance"
)

// hashBytes is the size of a hash of what a preset gives.
const hashBytes = 4

// Hash stands for what the preset gives: its defaults, overrides, remove and the paths of its
// forbid, in any order and spelling. What selects VMs, priority, mode and messages do not
// count. It is 8 hexadecimal digits; provenance has it.
func (c *Compiled) Hash() string { return c.hash }

// source is the preset in a role.
func (c *Compiled) source(role provenance.Role) provenance.Source {
	return provenance.Source{Preset: c.Ref, Generation: c.Generation, Role: role, Hash: c.hash}
}

func (c *Compiled) hashGiven() string {
	var removes, forbids []string
	for _, r := range c.removes {
		removes = append(removes, r.path.String())
	}
	for _, f := range c.forbids {
		forbids = append(forbids, f.path.String())
	}
	slices.Sort(removes)
	slices.Sort(forbids)
	text, err := json.Marshal([]any{c.defaults.canonical(), c.overrides.canonical(), removes, forbids})
	if err != nil { // unreachable: texts have a JSON form
		text = []byte(err.Error())
	}
	sum := digestOf(text)
	return hex.EncodeToString(sum[:hashBytes])
}

// canonical is one text for all orders and spellings of what lies at and beneath p.
func (p *fieldNode) canonical() string {
	switch {
	case p == nil:
		return ""
	case p.leaf:
		return p.canonicalValue()
	}
	var lines []string
	for _, kid := range p.kids {
		lines = append(lines, strconv.Itoa(int(kid.seg.Kind))+strconv.Quote(kid.seg.Name)+":"+kid.canonical())
	}
	for _, kid := range p.unkeyed {
		lines = append(lines, "#:"+kid.canonical()) // its name is its position
	}
	slices.Sort(lines)
	return "{" + strings.Join(lines, ",") + "}"
}

func (p *fieldNode) canonicalValue() string {
	switch {
	case p.computed != nil:
		return ComputedKey + strconv.Quote(p.computed.text)
	case p.quantity != nil:
		q := p.quantity.DeepCopy()
		return resource.NewDecimalQuantity(*q.AsDec(), resource.DecimalSI).String()
	}
	text, err := json.Marshal(p.value)
	if err != nil { // unreachable: it was JSON before
		return err.Error()
	}
	return string(text)
}
