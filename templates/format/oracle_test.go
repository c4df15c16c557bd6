package format_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The oracle implements the rules of templates a second time, by other means: paths are texts, and
// rules are regular expressions.

// between separates the steps of a path. No key contains it.
const between = "\x00"

func under(steps string) string { return strings.ReplaceAll(steps, "/", between) }

var (
	secretPath     = regexp.MustCompile(under(`(?s)^/spec/template/spec/(.*/)?(userData|userDataBase64|networkData|networkDataBase64|session|dhCert|password|passphrase|token)(/#)*$`))
	headerPath     = regexp.MustCompile(under(`(?s)^/spec/template/spec/(.*/)?httpHeaders/#/value$`))
	queryPath      = regexp.MustCompile(under(`(?s)^/spec/template/spec/(.*/)?httpGet/path$`))
	annotationPath = regexp.MustCompile(under(`(?is)(^|/)metadata/annotations/[^/]*(password|passwd|token|secret|key|credential)$`))
	ignitionPath   = regexp.MustCompile(under(`(?s)(^|/)metadata/annotations/kubevirt.io`) + "/ignitiondata$")
	sourceURL      = regexp.MustCompile(under(`(?s)^/spec/dataVolumeTemplates/#/spec/source/[^/]*/(.*/)?url$`))
	sourceHeader   = regexp.MustCompile(under(`(?s)^/spec/dataVolumeTemplates/#/spec/source/[^/]*/(.*/)?extraHeaders/#$`))
	identityPath   = regexp.MustCompile(under(`(?s)^/spec/template/spec/(hostname|domain/firmware/uuid|domain/firmware/serial|domain/chassis/serial|domain/chassis/asset|domain/devices/interfaces/#/macAddress)$`))
	annotationsEnd = regexp.MustCompile(under(`(?s)(^|/)metadata/annotations$`))
	encodedPath    = regexp.MustCompile("Base64(" + between + "#)*$")
	labelsKey      = regexp.MustCompile(`\$\{+LABELS\}`)
	dnsName        = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	droppedKey     = regexp.MustCompile(`^(kubectl\.kubernetes\.io/last-applied-configuration|kubevirt\.io/(latest|storage)-observed-api-version|restore\.kubevirt\.io/.*)$`)
	ours           = regexp.MustCompile(`^virtwright\.dev/`)
	oursKept       = regexp.MustCompile(`^virtwright\.dev/(presets|exclude|reapply|v1alpha2-names)$`)
)

// normal returns N(vm), the result of processing.
func normal(vm map[string]any) map[string]any {
	meta := vm["metadata"].(map[string]any)
	out := map[string]any{"generateName": meta["name"], "labels": map[string]any{}}
	if labels, ok := meta["labels"].(map[string]any); ok {
		out["labels"] = pruned(under("/metadata/labels"), labels)
	}
	if annotations, ok := pruned(under("/metadata/annotations"), meta["annotations"]).(map[string]any); ok && len(annotations) > 0 {
		out["annotations"] = annotations
	}
	return map[string]any{"apiVersion": vm["apiVersion"], "kind": vm["kind"], "metadata": out, "spec": pruned(under("/spec"), vm["spec"])}
}

func pruned(at string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		annotations := strings.HasSuffix(at, "annotations") && annotationsEnd.MatchString(at)
		for key, child := range value {
			drop := child == nil || key == "kubectl.kubernetes.io/last-applied-configuration"
			if annotations {
				drop = drop || droppedKey.MatchString(key) || ours.MatchString(key) && !oursKept.MatchString(key)
			}
			switch at + between + key {
			case under("/spec/template/metadata/creationTimestamp"), under("/spec/instancetype/revisionName"), under("/spec/preference/revisionName"):
				drop = true
			}
			if !drop {
				out[key] = pruned(at+between+key, child)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, child := range value {
			out = append(out, pruned(at+between+"#", child))
		}
		return out
	}
	return value
}

// each calls key for every key with the path of its map, and scalar for every scalar.
func each(at string, value any, key func(at, key string), scalar func(at string, value any)) {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			key(at, name)
			each(at+between+name, child, key, scalar)
		}
	case []any:
		for _, child := range value {
			each(at+between+"#", child, key, scalar)
		}
	default:
		scalar(at, value)
	}
}

func noKey(string, string) {}

// secretKeys are the last keys in the expressions for secrets, to compare fewer paths.
var secretKeys = map[string]bool{
	"userData": true, "userDataBase64": true, "networkData": true, "networkDataBase64": true, "session": true, "dhCert": true, "password": true, "passphrase": true, "token": true,
	"value": true, "kubevirt.io/ignitiondata": true, "url": true, "extraHeaders": true,
}

func lastKey(at string) string {
	for strings.HasSuffix(at, between+"#") {
		at = at[:len(at)-2]
	}
	return at[strings.LastIndex(at, between)+1:]
}

// secretsOf returns the secrets of N(vm), and those that may be common words.
func secretsOf(n map[string]any) (grave, light []string) {
	each("", n, noKey, func(at string, value any) {
		text, _ := value.(string)
		if strings.Contains(at, "annotations") && annotationPath.MatchString(at) {
			light = append(light, text)
			return
		}
		if _, query, _ := strings.Cut(text, "?"); query != "" && queryPath.MatchString(at) {
			light = append(light, query)
			return
		}
		if text == "" || !secretKeys[lastKey(at)] {
			return
		}
		if secretPath.MatchString(at) || ignitionPath.MatchString(at) || sourceHeader.MatchString(at) || sourceURL.MatchString(at) && secretive(text) {
			grave = append(grave, text)
			if decoded, err := base64.StdEncoding.DecodeString(squeezed(text)); err == nil && encodedPath.MatchString(at) {
				grave = append(grave, string(decoded))
			}
		}
	})
	headersOf("", n, nil, func(text string) { light = append(light, text) })
	return long(grave), long(light)
}

func long(texts []string) (long []string) {
	for _, text := range texts {
		if len(squeezed(text)) >= 8 {
			long = append(long, text)
		}
	}
	return long
}

var signature = regexp.MustCompile(`;.*=`)

func secretive(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || signature.MatchString(u.Path)
}

var ordinary = regexp.MustCompile(`(?i)^(host|accept(-encoding|-language)?|user-agent|content-type|connection|cache-control)$`)

// headersOf calls f for values of headers that may be credentials.
func headersOf(at string, value any, parent map[string]any, f func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			headersOf(at+between+key, child, value, f)
		}
	case []any:
		for _, child := range value {
			headersOf(at+between+"#", child, nil, f)
		}
	case string:
		name, _ := parent["name"].(string)
		if strings.HasSuffix(at, "value") && headerPath.MatchString(at) && !ordinary.MatchString(name) {
			f(value)
		}
	}
}

func identitiesOf(n map[string]any) (found int) {
	each("", n, noKey, func(at string, value any) {
		if _, ok := value.(string); ok && identityPath.MatchString(at) {
			found++
		}
	})
	return found
}

var alphabet = strings.NewReplacer("-", "+", "_", "/")

func squeezed(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// apart reports whether a character is not in base64.
func apart(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '+' && r != '/' && r != '-' && r != '_'
}

// fromBase64 decodes either alphabet, with or without padding.
func fromBase64(text string) string {
	text = strings.TrimRight(alphabet.Replace(text), "=")
	decoded, _ := base64.RawStdEncoding.DecodeString(text[:len(text)-len(text)%4])
	if rest := len(text) % 4; rest > 1 {
		last, _ := base64.RawStdEncoding.DecodeString(text[len(text)-rest:])
		decoded = append(decoded, last...)
	}
	return string(decoded)
}

// holds reports whether a text contains a secret, ignoring white space, as text or in base64.
func holds(text string, secrets []string) bool {
	if len(secrets) == 0 || len(text) < 8 {
		return false
	}
	plain := squeezed(text)
	texts := []string{}
	for _, run := range strings.FieldsFunc(plain, apart) {
		for offset := 0; offset < 4 && len(run) >= 10; offset++ {
			texts = append(texts, fromBase64(run[offset:]))
		}
	}
	for _, secret := range secrets {
		decodes := func(decoded string) bool { return strings.Contains(decoded, strings.TrimSpace(secret)) }
		if strings.Contains(plain, squeezed(secret)) || slices.ContainsFunc(texts, decodes) {
			return true
		}
	}
	return false
}

var (
	word     = regexp.MustCompile(`^[A-Za-z0-9]*$`)
	freeMaps = map[string]bool{"labels": true, "annotations": true, "matchLabels": true, "nodeSelector": true}
)

// rejected returns why no template can be made with these secrets; empty if one can.
func rejected(n map[string]any, secrets []string, rename bool) (why string) {
	volumes := map[string]bool{}
	each("", n, noKey, func(at string, value any) {
		if name, ok := value.(string); ok && at == under("/spec/dataVolumeTemplates/#/metadata/name") {
			volumes[name] = true
		}
	})
	each("", n, func(at, key string) {
		if labelsKey.MatchString(key) {
			why = "a key mentions LABELS"
		}
		if (!word.MatchString(key) || freeMaps[lastKey(at)]) && holds(key, secrets) {
			why = "a key contains a secret"
		}
	}, func(at string, value any) {
		text := textOf(value)
		n, isInt := value.(int64)
		stays := at == under("/metadata/generateName") || strings.HasPrefix(at, under("/metadata/labels/")) || isInt && (n > 1<<53 || n < -(1<<53))
		if stays && holds(text, secrets) {
			why = "a fixed text contains a secret"
		}
		if rename && at == under("/spec/dataVolumeTemplates/#/metadata/name") {
			if !dnsName.MatchString(text) || len(text) > 247 || holds(text, secrets) {
				why = "the name of a DataVolume cannot have a suffix"
			}
		}
	})
	return why
}

func textOf(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	encoded, _ := json.Marshal(value)
	return string(encoded)
}

// unequal returns where two trees differ. It compares integers exactly.
func unequal(at string, a, b any) string {
	x, y := reflect.ValueOf(number(a)), reflect.ValueOf(number(b))
	if !x.IsValid() || !y.IsValid() || x.Type() != y.Type() {
		if !x.IsValid() && !y.IsValid() {
			return ""
		}
		return fmt.Sprintf("%q: %T %v, %T %v", at, a, a, b, b)
	}
	switch x.Kind() {
	case reflect.Map:
		for key := range a.(map[string]any) {
			if _, ok := b.(map[string]any)[key]; !ok {
				return fmt.Sprintf("%q: only the first has %q", at, key)
			}
		}
		for key, value := range b.(map[string]any) {
			other, ok := a.(map[string]any)[key]
			if !ok {
				return fmt.Sprintf("%q: only the second has %q", at, key)
			}
			if d := unequal(at+"/"+key, other, value); d != "" {
				return d
			}
		}
	case reflect.Slice:
		if x.Len() != y.Len() {
			return fmt.Sprintf("%q: %d items, %d items", at, x.Len(), y.Len())
		}
		for i, item := range a.([]any) {
			if d := unequal(at+"/#", item, b.([]any)[i]); d != "" {
				return d
			}
		}
	default:
		if x.Interface() != y.Interface() {
			return fmt.Sprintf("%q: %v, %v", at, a, b)
		}
	}
	return ""
}

func number(value any) any {
	if f, ok := value.(float64); ok && math.Trunc(f) == f && math.Abs(f) < 1<<62 {
		return int64(f)
	}
	return value
}
