package blueprint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	// MinSecretLength is the length of the shortest secret that is searched for inside other text.
	// Shorter ones occur by chance.
	MinSecretLength = 8
	maxSecrets      = 100 // bounds the number of searches
)

var errTooManySecrets = fmt.Errorf("the VM has more than %d different secrets, too many to search its other text for copies of them: remove some, such as cloud-init data or headers with credentials", maxSecrets)

// A SecretFinder finds copies of secrets in text: the secret as it is, as a JSON string has it, or
// in base64 with either alphabet, also as a part of longer base64. White space does not count,
// because copies are indented and base64 is wrapped. A SecretFinder does not find a part of a
// secret, nor a copy that is escaped or encoded otherwise, or twice, compressed or encrypted.
type SecretFinder struct{ traces []trace }

type trace struct {
	*site
	copies []string // the encodings, without white space
}

// add adds the secrets of a site, except those that are too short.
func (t *SecretFinder) add(s *site) {
	for _, secret := range s.secrets() {
		if copies := copiesOf(secret); copies != nil {
			t.traces = append(t.traces, trace{site: s, copies: copies})
		}
	}
}

// copiesOf returns the encodings of a secret. In base64 of a longer text, the secret begins at one
// of three offsets.
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

// quoted returns a text as it is between the quotes of a JSON string. Encoders differ in whether
// they escape HTML.
func quoted(text string, html bool) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(html)
	_ = encoder.Encode(text) // a string can be encoded
	return strings.Trim(strings.TrimSpace(out.String()), `"`)
}

// squeezed returns a text without white space.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// Find returns the parameter of a secret that a text contains. In a name, which is a key, a label
// or the name of an object, it does not search for secrets that may be common words.
func (t *SecretFinder) Find(text string, isName bool) (parameter string, found bool) {
	secret := t.search(text, isName)
	if secret == nil {
		return "", false
	}
	return secret.name, true
}

// search returns the secret that Find finds. Secrets that may be common words come last.
func (t *SecretFinder) search(text string, name bool) (found *site) {
	if len(t.traces) == 0 {
		return nil
	}
	text = squeezed(text)
	for _, candidate := range t.traces {
		contained := func(copied string) bool { return strings.Contains(text, copied) }
		switch {
		case candidate.commonWord && (name || found != nil), !slices.ContainsFunc(candidate.copies, contained):
		case !candidate.commonWord:
			return candidate.site
		default:
			found = candidate.site
		}
	}
	return found
}

// IsFreeFormKey reports whether users may have chosen a key, so that it can contain anything. Names
// of fields consist of letters and digits.
func IsFreeFormKey(parent, key string) bool {
	switch parent {
	case "labels", "annotations", "matchLabels", "nodeSelector":
		return true
	}
	return strings.ContainsFunc(key, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
