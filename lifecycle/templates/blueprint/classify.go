package blueprint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// secretKeys are keys of the instance whose texts no template may hold.
var secretKeys = []string{
	"userData", "userDataBase64", "networkData", "networkDataBase64", // cloud-init
	"session", "dhCert", // launch security
	"password", "passphrase", "token",
}

// identities are fields of the instance that no two VMs share.
var identities = [][]string{
	{"domain", "firmware", "uuid"},
	{"domain", "firmware", "serial"},
	{"domain", "chassis", "serial"},
	{"domain", "chassis", "asset"},
	{"domain", "devices", "interfaces", "[]", "macAddress"},
	{"hostname"},
}

// traceable is the shortest secret that is looked for elsewhere: shorter ones
// would be found by chance.
const traceable = 8

// classify says what each scalar is to a template.
func classify(d *draft) error {
	for _, s := range d.sites {
		switch {
		case secret(s):
			s.class = Secret
		case s.class == Value && identity(s):
			s.class = Identity
		case s.class == "" && s.kind == String && strings.Contains(s.text(), token):
			s.class = Literal
		}
	}
	return spread(d)
}

// secret says whether a text must not reach a template, by where it stands. An
// empty one has nothing to hide.
func secret(s *site) bool {
	text, ok := s.value.(string)
	switch {
	case !ok || text == "":
		return false
	case s.at.inInstance():
		return slices.Contains(secretKeys, s.at.key()) || s.at.ends("httpHeaders", "[]", "value")
	case s.at.ends("metadata", "annotations", "kubevirt.io/ignitiondata"):
		return true
	case s.at.begins("spec", "dataVolumeTemplates", "[]", "spec", "source", "*"):
		return s.at.ends("extraHeaders", "[]") || s.at.ends("url") && confidential(text)
	}
	return false
}

// confidential says whether a URL has more than a place in it: a user, or a
// query, which may be a signature.
func confidential(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != ""
}

func identity(s *site) bool {
	_, isText := s.value.(string)
	within := s.at[len(instance):]
	return isText && slices.ContainsFunc(identities, func(steps []string) bool { return within.is(steps...) })
}

// spread makes secrets of all that holds the value of one. Keys cannot be
// parameters, nor can labels: they are an error.
func spread(d *draft) error {
	for _, s := range d.sites {
		if s.class == Secret {
			d.traces = append(d.traces, traces(s)...)
		}
	}
	if len(d.traces) == 0 {
		return nil
	}
	slices.Sort(d.traces)
	d.traces = slices.Compact(d.traces)
	if err := d.clearKeys(); err != nil {
		return err
	}
	for _, s := range d.sites {
		if !published(s) || !d.betrays(s.text()) {
			continue
		}
		if s.at.is("metadata", "generateName") || large(s.value) {
			return fmt.Errorf("%s holds the value of a secret, and must stay as it is", s.at)
		}
		s.class = Secret
	}
	return nil
}

// published says whether a template has the value, and not because it is one.
func published(s *site) bool {
	return s.class != Secret && s.class != Identity && !s.at.is("apiVersion") && !s.at.is("kind")
}

func (d *draft) clearKeys() error {
	v := visitor{scalar: func(path, any) error { return nil }, key: func(parent path, key string) error {
		if d.betrays(key) {
			return fmt.Errorf("a key in %s holds the value of a secret", orRoot(parent))
		}
		return nil
	}}
	if err := v.walk(nil, d.tree); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(d.labels)) {
		if d.betrays(d.labels[key]) {
			return fmt.Errorf("the label %s holds the value of a secret", key)
		}
	}
	return nil
}

// betrays says whether a text has a secret in it.
func (d *draft) betrays(text string) bool {
	return len(text) >= traceable && slices.ContainsFunc(d.traces, func(trace string) bool { return strings.Contains(text, trace) })
}

// traces are the forms in which a secret may stand elsewhere. What is padded
// holds what is not.
func traces(s *site) []string {
	texts := []string{s.text()}
	if strings.HasSuffix(s.at.key(), "Base64") {
		if decoded, err := base64.StdEncoding.DecodeString(s.text()); err == nil {
			texts = append(texts, string(decoded))
		}
	}
	var forms []string
	for _, text := range texts {
		if len(text) < traceable {
			continue
		}
		quoted, _ := json.Marshal(text) // texts encode
		forms = append(forms, text, string(quoted[1:len(quoted)-1]),
			base64.RawStdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	return forms
}
