package main

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// changeLayers swaps defaults and overrides: all of them, and one at a time.
func changeLayers(spec map[string]any, yield func(string, edit)) {
	for i, layer := range layers {
		other := layers[1-i]
		if spec[layer] == nil {
			continue
		}
		yield(layer+" become "+other, func(s map[string]any) {
			s[other] = s[layer]
			delete(s, layer)
		})
		for _, at := range leavesOf(spec[layer], nil) {
			if key, _ := at[len(at)-1].(string); slices.Contains(elementKeys, key) {
				continue // the element has its key in both layers
			}
			yield(fmt.Sprintf("%s moves from %s to %s", at, layer, other), func(s map[string]any) {
				s[other] = only(spec[layer], at)
				removeAt(s, append(place{layer}, at...))
			})
		}
	}
}

var elementKeys = []string{"name", "topologyKey", "whenUnsatisfiable", "key", "operator", "effect"}

// only returns the part of a value on the path to a place, with the keys of the elements.
func only(in any, at place) any {
	if len(at) == 0 {
		return in
	}
	if key, ok := at[0].(string); ok {
		return map[string]any{key: only(in.(map[string]any)[key], at[1:])}
	}
	whole := in.([]any)[at[0].(int)].(map[string]any)
	element := only(whole, at[1:]).(map[string]any)
	for _, key := range elementKeys {
		if whole[key] != nil {
			element[key] = whole[key]
		}
	}
	return []any{element}
}

// pathSteps splits a path into fields, keys of maps, and elements of lists.
var pathSteps = regexp.MustCompile(`\["[^"]*"\]|\[\*\]|[^.\[]+`)

func changeForbids(spec map[string]any, yield func(string, edit)) {
	rules, _ := spec["forbid"].([]any)
	for i, rule := range rules {
		path := rule.(map[string]any)["path"].(string)
		yield(path+" is not forbidden", func(s map[string]any) { removeAt(s, place{"forbid", i}) })
		yield(path+" is forbidden with another message", func(s map[string]any) { setAt(s, place{"forbid", i, "message"}, "forbidden") })
		var at place
		steps := pathSteps.FindAllString(path, -1)
		for _, step := range steps {
			if step == "[*]" {
				at = append(at, 0)
				continue
			}
			at = append(at, strings.Trim(step, `[]"`))
		}
		last := steps[len(steps)-1]
		above := strings.TrimSuffix(strings.TrimSuffix(path, last), ".")
		forbid := func(other string) {
			yield(other+" is forbidden instead of "+path, func(s map[string]any) { setAt(s, place{"forbid", i, "path"}, other) })
		}
		forbid(strings.TrimSuffix(above, "[*]"))
		if in := typeAt(at[:len(at)-1]); in.Kind() == reflect.Struct {
			names := slices.Sorted(maps.Keys(fieldsOf(in)))
			forbid(above + "." + names[slices.IndexFunc(names, func(name string) bool { return name != last && name != "name" })])
		} else {
			forbid(above + `["other"]`)
		}
	}
}

func changeSelectors(spec map[string]any, yield func(string, edit)) {
	match, _ := spec["match"].(map[string]any)
	for _, kind := range []string{"labels", "namespaces"} {
		selector, ok := match[kind].(map[string]any)
		if !ok {
			continue
		}
		yield(kind+" are not matched", func(s map[string]any) { removeAt(s, place{"match", kind}) })
		other := map[string]string{"labels": "namespaces", "namespaces": "labels"}[kind]
		yield("match "+other+" instead of "+kind, func(s map[string]any) {
			setAt(s, place{"match", other}, selector)
			delete(s["match"].(map[string]any), kind)
		})
		labels, _ := selector["matchLabels"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			value := labels[key]
			at := place{"match", kind, "matchLabels"}
			expression := func(operator string, values ...any) edit {
				return func(s map[string]any) {
					e := map[string]any{"key": key, "operator": operator}
					if len(values) > 0 {
						e["values"] = values
					}
					setAt(s, place{"match", kind}, map[string]any{"matchExpressions": []any{e}})
				}
			}
			yield(fmt.Sprintf("%s have another value of %s", kind, key), func(s map[string]any) { setAt(s, append(slices.Clone(at), key), "other") })
			yield(fmt.Sprintf("%s have another key than %s", kind, key), func(s map[string]any) { setAt(s, at, map[string]any{"other": value}) })
			yield(kind+" have "+key+" with any value", expression("Exists"))
			yield(kind+" do not have "+key, expression("DoesNotExist"))
			yield(kind+" have "+key+" with any other value", expression("NotIn", value))
		}
	}
}

func changeConditions(spec map[string]any, yield func(string, edit)) {
	match, _ := spec["match"].(map[string]any)
	conditions, _ := match["conditions"].([]any)
	for i, condition := range conditions {
		name, expression := condition.(map[string]any)["name"], condition.(map[string]any)["expression"].(string)
		yield(fmt.Sprintf("condition %s is removed", name), func(s map[string]any) { removeAt(s, place{"match", "conditions", i}) })
		for _, other := range append(otherExpressions(expression), "!("+expression+")", "true") {
			yield(fmt.Sprintf("condition %s becomes %s", name, other), func(s map[string]any) { setAt(s, place{"match", "conditions", i, "expression"}, other) })
		}
	}
}

// changeSettings changes other settings of a preset.
func changeSettings(spec map[string]any, yield func(string, edit)) {
	// Tests treat modes Warn and Audit as Enforce (decision 37).
	yield("mode Off", func(s map[string]any) { s["mode"] = "Off" })
	yield("applyAt Launch", func(s map[string]any) { s["applyAt"] = "Launch" })
	yield("explicit is reversed", func(s map[string]any) {
		match, _ := s["match"].(map[string]any)
		explicit, _ := match["explicit"].(bool)
		setAt(s, place{"match", "explicit"}, !explicit)
	})
	if priority := spec["priority"]; priority != nil {
		yield("no priority", func(s map[string]any) { delete(s, "priority") })
		yield("the lowest priority", func(s map[string]any) { s["priority"] = -1000000 })
	}
}
