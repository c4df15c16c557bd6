package blueprint

import (
	"encoding/base64"
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

// secretEndings are endings of the keys of annotations, in the singular, whose
// values no template may hold.
var secretEndings = []string{"password", "passwd", "passphrase", "token", "secret", "key", "credential"}

// classify says what each scalar is to a template.
func classify(d *draft) error {
	for _, s := range d.sites {
		switch {
		case d.secret(s):
			s.class, s.word = Secret, header(s.at) || probePath(s.at) || secretAnnotation(s.at)
		case s.class == Value && identity(s):
			s.class = Identity
		case s.class == "" && s.kind == String && strings.Contains(s.text(), token):
			s.class = Literal
		}
	}
	return d.withholdCopies()
}

// secret says whether a text must not reach a template, by where it stands. An
// empty one has nothing to hide.
func (d *draft) secret(s *site) bool {
	text, _ := s.value.(string)
	switch {
	case text == "":
		return false
	case header(s.at):
		name, _ := field(d.parent(s.at), "name").(string)
		return !slices.Contains(harmless, strings.ToLower(name))
	case probePath(s.at):
		return query(text) != ""
	case secretAnnotation(s.at):
		return true
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

// probePath says whether the path that a probe requests stands there.
func probePath(at path) bool { return at.inInstance() && at.ends("httpGet", "path") }

// query is what follows the question mark in the path of a probe.
func query(text string) string {
	_, query, _ := strings.Cut(text, "?")
	return query
}

// secretAnnotation says whether the key of an annotation announces a secret.
func secretAnnotation(at path) bool {
	key := strings.TrimSuffix(strings.ToLower(at.key()), "s")
	return at.ends("metadata", "annotations", "*") && slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(key, ending) })
}

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

// withholdCopies makes secrets of all values that contain one. What cannot be a
// parameter must not contain any.
func (d *draft) withholdCopies() error {
	type secret struct {
		text string
		word bool
	}
	traced := map[secret]bool{}
	for _, s := range d.sites {
		if one := (secret{s.text(), s.word}); s.class == Secret && !traced[one] {
			traced[one] = true
			d.tracer.add(s)
		}
	}
	if len(d.tracer.traces) > maxSecrets {
		return errTooManySecrets
	}
	for _, s := range d.sites {
		if found := d.copied(s); found != nil {
			s.class, s.word = Secret, found.word
		}
	}
	return d.clearNames()
}

// copied is the secret that a site contains, if it can become a parameter.
func (d *draft) copied(s *site) *site {
	switch {
	case s.class == Secret, s.class == Identity, s.fixed(), s.at.is("apiVersion"), s.at.is("kind"):
		return nil
	}
	return d.tracer.search(s.text(), false)
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

// clear says whether a text contains no secret. What and at name the text in the error,
// which contains no secret either.
func (d *draft) clear(text, what string, at path) error {
	found := d.tracer.search(text, true)
	if found == nil {
		return nil
	}
	return fmt.Errorf(what+" holds the value of the secret in %s: change one of them", d.shown(at), d.shown(found.at))
}

// shown is a path for messages.
func (d *draft) shown(at path) string {
	for _, s := range at {
		if _, found := d.tracer.InName(s.key); found {
			return "a place with a secret in its path"
		}
	}
	return orRoot(at)
}

// secrets are the texts that must not occur elsewhere: of the path of a probe its
// query, and of base64 what it encodes, too.
func (s *site) secrets() []string {
	text := s.text()
	if probePath(s.at) {
		return []string{query(text)}
	}
	if decoded, err := base64.StdEncoding.DecodeString(squeezed(text)); err == nil && strings.HasSuffix(s.at.key(), "Base64") {
		return []string{text, string(decoded)}
	}
	return []string{text}
}
