package render

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// An element is one of an XML document.
type element struct {
	name     string
	attrs    map[string]string
	text     string
	children []*element
}

// parse reads a document.
func parse(t *testing.T, document string) *element {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(document))
	root := &element{}
	stack := []*element{root}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("cannot parse: %v\n%s", err, document)
		}
		top := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					e.attrs[a.Name.Local] = a.Value
				}
			}
			top.children = append(top.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.text += strings.TrimSpace(string(token))
		}
	}
	if len(root.children) != 1 {
		t.Fatalf("%d roots", len(root.children))
	}
	return root.children[0]
}

// present are the elements that mean something by being there, without anything in them. All other
// empty ones are nothing to libvirt.
var present = map[string]bool{
	"acpi": true, "apic": true, "smm": true, "readonly": true, "shareable": true, "nosharepages": true,
	"locked": true, "hugepages": true, "redirdev": true, "transient": true,
}

// leaves are all values of a document, as path = value. Alias, name, type and index distinguish the
// elements of a kind.
func leaves(e *element, path string, out map[string]string) {
	if e.text != "" || present[e.name] {
		out[path] = e.text
	}
	for name, value := range e.attrs {
		if e.name != "entry" { // whose name is in its path
			out[path+"@"+name] = value
		}
	}
	seen := map[string]int{}
	for _, child := range e.children {
		at := path + "/" + child.name + identity(child)
		seen[at]++
		if n := seen[at]; n > 1 {
			at += fmt.Sprintf("#%d", n)
		}
		leaves(child, at, out)
	}
}

func identity(e *element) string {
	switch e.name {
	case "disk", "interface", "filesystem", "hostdev", "input":
		for _, child := range e.children {
			if child.name == "alias" {
				return "[" + child.attrs["name"] + "]"
			}
		}
	case "entry", "timer", "feature":
		return "[" + e.attrs["name"] + "]"
	case "controller", "serial", "console", "channel":
		return "[" + e.attrs["type"] + "]"
	}
	return ""
}

// A difference is what two documents say differently; an empty side says nothing.
type difference struct{ path, kubevirt, ours string }

func (d difference) String() string {
	show := func(s string) string {
		if s == "" {
			return "(nothing)"
		}
		return s
	}
	return fmt.Sprintf("%s: KubeVirt %s, virtwright %s", d.path, show(d.kubevirt), show(d.ours))
}

// compare lists the differences of two documents in order of their paths.
func compare(t *testing.T, kubevirt, ours string) []difference {
	t.Helper()
	theirs, mine := map[string]string{}, map[string]string{}
	leaves(parse(t, kubevirt), "", theirs)
	leaves(parse(t, ours), "", mine)
	paths := maps.Clone(theirs)
	maps.Copy(paths, mine)
	var out []difference
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		their, inTheirs := theirs[path]
		my, inMine := mine[path]
		if their != my || inTheirs != inMine {
			if inTheirs && their == "" {
				their = "there"
			}
			if inMine && my == "" {
				my = "there"
			}
			out = append(out, difference{path, their, my})
		}
	}
	return out
}
