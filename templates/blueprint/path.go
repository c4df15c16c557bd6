package blueprint

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A step leads from a map to the value of a key, or from a list to an item.
type step struct {
	key   string
	index int
	item  bool
}

// A path leads from a VirtualMachine to a value in it.
type path []step

var instance = path{{key: "spec"}, {key: "template"}, {key: "spec"}}

func (p path) to(key string) path { return append(slices.Clip(p), step{key: key}) }

func (p path) at(index int) path { return append(slices.Clip(p), step{index: index, item: true}) }

// String returns the path as JSONPath: spec.template.spec.nodeSelector['kubernetes.io/arch'].
func (p path) String() string {
	var text strings.Builder
	for i, s := range p {
		switch {
		case s.item:
			text.WriteString("[" + strconv.Itoa(s.index) + "]")
		case !plain(s.key):
			text.WriteString("['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s.key) + "']")
		case i > 0:
			text.WriteString("." + s.key)
		default:
			text.WriteString(s.key)
		}
	}
	return text.String()
}

func plain(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// key returns the last key; items have the key of their list.
func (p path) key() string {
	for _, s := range slices.Backward(p) {
		if !s.item {
			return s.key
		}
	}
	return ""
}

// is reports whether a path has exactly these steps; [] matches any item, * any key.
func (p path) is(steps ...string) bool {
	return len(p) == len(steps) && p.begins(steps...)
}

func (p path) begins(steps ...string) bool {
	if len(p) < len(steps) {
		return false
	}
	for i, want := range steps {
		if p[i].item != (want == "[]") || !p[i].item && want != "*" && p[i].key != want {
			return false
		}
	}
	return true
}

func (p path) ends(steps ...string) bool {
	return len(p) >= len(steps) && p[len(p)-len(steps):].is(steps...)
}

func (p path) inInstance() bool {
	return len(p) > len(instance) && slices.Equal(p[:len(instance)], instance)
}

// A visitor visits every key, before its value, and every scalar.
type visitor struct {
	key    func(parent path, key string) error
	scalar func(at path, value any) error
}

// walk visits a tree in the order of its keys.
func (v visitor) walk(at path, tree any) error {
	switch tree := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			if err := v.key(at, key); err != nil {
				return err
			}
			if err := v.walk(at.to(key), tree[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range tree {
			if err := v.walk(at.at(i), item); err != nil {
				return err
			}
		}
	default:
		return v.scalar(at, tree)
	}
	return nil
}

// MapScalars copies a tree of JSON and replaces each value that is neither a map nor a list. It
// visits maps in the order of their keys.
func MapScalars(tree any, scalar func(value any) any) any {
	return MapTree(tree, func(key string) string { return key }, scalar)
}

// MapTree is MapScalars, and also replaces keys.
func MapTree(tree any, newKey func(string) string, scalar func(value any) any) any {
	switch tree := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(tree))
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			out[newKey(key)] = MapTree(tree[key], newKey, scalar)
		}
		return out
	case []any:
		out := make([]any, len(tree))
		for i, item := range tree {
			out[i] = MapTree(item, newKey, scalar)
		}
		return out
	default:
		return scalar(tree)
	}
}

// field returns a value in a tree of maps; nil if it does not exist.
func field(tree any, keys ...string) any {
	for _, key := range keys {
		fields, ok := tree.(map[string]any)
		if !ok {
			return nil
		}
		tree = fields[key]
	}
	return tree
}
