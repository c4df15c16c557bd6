package blueprint

import (
	"errors"
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

// harmless are headers that carry no credentials.
var harmless = []string{"host", "accept", "accept-encoding", "accept-language", "user-agent", "content-type", "connection", "cache-control"}

// classify says what each scalar is to a template.
func classify(d *draft) error {
	for _, s := range d.sites {
		switch {
		case d.secret(s):
			s.class, s.light = Secret, header(s.at)
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
func (d *draft) secret(s *site) bool {
	text, ok := s.value.(string)
	switch {
	case !ok || text == "":
		return false
	case header(s.at):
		name, _ := field(d.parent(s.at), "name").(string)
		return !slices.Contains(harmless, strings.ToLower(name))
	case s.at.inInstance():
		return slices.Contains(secretKeys, s.at.key())
	case s.at.ends("metadata", "annotations", "kubevirt.io/ignitiondata"):
		return true
	case s.at.begins("spec", "dataVolumeTemplates", "[]", "spec", "source", "*"):
		return s.at.ends("extraHeaders", "[]") || s.at.ends("url") && confidential(text)
	}
	return false
}

// header says whether the value of a header of a probe stands there.
func header(at path) bool { return at.inInstance() && at.ends("httpHeaders", "[]", "value") }

// confidential says whether a URL has more than a place in it: a user, or a
// query or parameters, which may be a signature.
func confidential(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" {
		return true
	}
	_, parameters, _ := strings.Cut(u.Path, ";")
	return strings.Contains(parameters, "=")
}

func identity(s *site) bool {
	_, isText := s.value.(string)
	within := s.at[len(instance):]
	return isText && slices.ContainsFunc(identities, func(steps []string) bool { return within.is(steps...) })
}

// spread makes secrets of all that holds the value of one, until nothing else
// does. What cannot be a parameter must not hold any.
func spread(d *draft) error {
	for _, s := range d.sites {
		if s.class == Secret {
			d.tracer.add(traces(s, s.at.String()))
		}
	}
	for more := true; more; {
		more = false
		for _, s := range d.sites {
			found := d.held(s)
			if found.text == "" {
				continue
			}
			s.class, s.light, more = Secret, found.light, true
			d.tracer.add(traces(s, s.at.String()))
		}
	}
	if err := d.clearNames(); err != nil {
		return err
	}
	if d.tracer.Exhausted() {
		return errors.New("more is packed in it, in base64 and the like, than can be searched for secrets")
	}
	return nil
}

// held is what a site holds of a secret, if it can become a parameter for it.
func (d *draft) held(s *site) trace {
	switch {
	case s.class == Secret, s.class == Identity, s.fixed(), s.at.is("apiVersion"), s.at.is("kind"):
		return trace{}
	}
	return d.tracer.look(s.text(), deepest, false)
}

// fixed says whether a site must stay as it is.
func (s *site) fixed() bool { return s.at.is("metadata", "generateName") || large(s.value) }

// clearNames says whether something that cannot be a parameter holds a secret:
// keys, labels, the name, large numbers.
func (d *draft) clearNames() error {
	v := visitor{scalar: func(path, any) error { return nil }, key: func(parent path, key string) error {
		if !Invented(parent.key(), key) {
			return nil
		}
		return d.clear(key, "a key in %s", parent)
	}}
	if err := v.walk(nil, d.tree); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(d.labels)) {
		if err := d.clear(d.labels[key], "%s", path{{key: "metadata"}, {key: "labels"}, {key: key}}); err != nil {
			return err
		}
	}
	for _, s := range d.sites {
		if s.fixed() && s.class != Secret && s.class != Identity {
			if err := d.clear(s.text(), "%s, which must stay as it is,", s.at); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear says whether a text holds no secret. What and at name the text, which no
// secret is told in.
func (d *draft) clear(text, what string, at path) error {
	secret, found := d.tracer.InName(text)
	if !found {
		return nil
	}
	if _, told := d.tracer.InName(secret); told {
		secret = "a path that holds it too"
	}
	return fmt.Errorf(what+" holds the value of the secret in %s: change one of them", d.told(at), secret)
}

// told is a path as messages have it.
func (d *draft) told(at path) string {
	text := orRoot(at)
	if _, found := d.tracer.InName(text); found {
		return "a place with a secret in its path"
	}
	return text
}

// traces are what betrays a secret of this name: in fields of base64, what is
// encoded too.
func traces(s *site, name string) []trace {
	found := []trace{{text: s.text(), secret: name, light: s.light}}
	if strings.HasSuffix(s.at.key(), "Base64") {
		inner := decoded(strings.TrimRight(standard.Replace(squeezed(s.text())), "="))
		found = append(found, trace{text: inner, secret: name, light: s.light})
		for text := range decompressed(inner) {
			found = append(found, trace{text: text, secret: name, light: s.light})
		}
	}
	return found
}
