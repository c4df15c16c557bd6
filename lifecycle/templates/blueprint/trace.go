package blueprint

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

const (
	// MinSecretLength is the length of the shortest secret that is searched for
	// inside other text: shorter ones occur there by chance.
	MinSecretLength = 8
	// maxSecrets bounds how often each text of a VM is searched.
	maxSecrets = 100
)

var errTooManySecrets = errors.New("the VM has too many secrets to search its other text for copies of them")

// A Tracer finds copies of secrets in text: the secret as it is, as a JSON string
// has it, or in base64 with either alphabet, also as a part of longer base64. White space does not
// count, because copies are indented and base64 is wrapped. A Tracer does not
// find a part of a secret, nor a copy that is escaped or encoded otherwise, or
// twice, compressed or encrypted.
type Tracer struct{ traces []trace }

// A trace is a secret that copies are searched for.
type trace struct {
	*site
	// copies are the texts that prove a copy, without white space.
	copies []string
}

// add adds the secrets of a site, but for those that are too short.
func (t *Tracer) add(s *site) {
	for _, secret := range s.secrets() {
		if copies := copiesOf(secret); copies != nil {
			t.traces = append(t.traces, trace{site: s, copies: copies})
		}
	}
}

// copiesOf lists the texts that prove a copy of a secret. In base64 of a text
// that contains the secret, it stands at one of three offsets.
func copiesOf(secret string) []string {
	secret = strings.TrimSpace(secret)
	literal := squeezed(secret)
	if len(literal) < MinSecretLength {
		return nil
	}
	copies := []string{literal}
	for _, html := range []bool{true, false} {
		if inJSON := squeezed(quoted(secret, html)); !slices.Contains(copies, inJSON) {
			copies = append(copies, inJSON)
		}
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			encoded := encoding.EncodeToString([]byte(strings.Repeat(" ", before) + secret))
			// Only these characters depend on the secret alone.
			encoded = encoded[(before*8+5)/6 : (before+len(secret))*8/6]
			if !slices.Contains(copies, encoded) {
				copies = append(copies, encoded)
			}
		}
	}
	return copies
}

// quoted is a text as it stands between the quotes of a JSON string. Tools differ
// in whether they escape what HTML does not allow.
func quoted(text string, html bool) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(html)
	_ = encoder.Encode(text) // a string can be encoded
	return strings.Trim(strings.TrimSpace(out.String()), `"`)
}

// squeezed is a text without white space.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// InValue gives the parameter's name of a secret that a value contains.
func (t *Tracer) InValue(text string) (name string, found bool) {
	if secret := t.search(text, false); secret != nil {
		return secret.name, true
	}
	return "", false
}

// InName gives the parameter's name of a secret that a key, a label or a name
// contains. Secrets that may be common words are not searched for there.
func (t *Tracer) InName(text string) (name string, found bool) {
	if secret := t.search(text, true); secret != nil {
		return secret.name, true
	}
	return "", false
}

// search gives the secret that a text contains, one that may be a word only if there is no
// other, and in names none of those.
func (t *Tracer) search(text string, name bool) (found *site) {
	if len(t.traces) == 0 {
		return nil
	}
	text = squeezed(text)
	for _, candidate := range t.traces {
		contained := func(copied string) bool { return strings.Contains(text, copied) }
		switch {
		case candidate.word && (name || found != nil), !slices.ContainsFunc(candidate.copies, contained):
		case !candidate.word:
			return candidate.site
		default:
			found = candidate.site
		}
	}
	return found
}

// Invented says whether a key of a map is one that somebody made up, where it
// may be anything: names of fields consist of letters and digits.
func Invented(parent, key string) bool {
	switch parent {
	case "labels", "annotations", "matchLabels", "nodeSelector":
		return true
	}
	return strings.ContainsFunc(key, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
