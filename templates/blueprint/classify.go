package blueprint

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// secretKeys are keys of the instance spec with secret values.
var secretKeys = []string{
	"userData", "userDataBase64", "networkData", "networkDataBase64", // cloud-init
	"session", "dhCert", // launch security
	"password", "passphrase", "token",
}

// identities are fields of the instance spec that no two VMs share.
var identities = [][]string{
	{"domain", "firmware", "uuid"},
	{"domain", "firmware", "serial"},
	{"domain", "chassis", "serial"},
	{"domain", "chassis", "asset"},
	{"domain", "devices", "interfaces", "[]", "macAddress"},
	{"hostname"},
}

// harmlessHeaders carry no credentials.
var harmlessHeaders = []string{"host", "accept", "accept-encoding", "accept-language", "user-agent", "content-type", "connection", "cache-control"}

// secretEndings are endings of the keys of annotations with secret values, in the singular.
var secretEndings = []string{"password", "passwd", "passphrase", "token", "secret", "key", "credential"}

// classify sets the class of each scalar that becomes a parameter.
func classify(d *draft) error {
	for _, s := range d.sites {
		switch {
		case d.isSecret(s):
			s.class, s.commonWord = Secret, isHeader(s.at) || isProbePath(s.at) || isSecretAnnotation(s.at)
		case s.class == Value && isIdentity(s):
			s.class = Identity
		case s.class == "" && s.kind == String && strings.Contains(s.text(), token):
			s.class = Literal
		}
	}
	return d.withholdCopies()
}

// isSecret reports whether the field of a scalar holds a secret. Empty texts are no secrets.
func (d *draft) isSecret(s *site) bool {
	text, _ := s.value.(string)
	switch {
	case text == "":
		return false
	case isHeader(s.at):
		name, _ := field(d.parent(s.at), "name").(string)
		return !slices.Contains(harmlessHeaders, strings.ToLower(name))
	case isProbePath(s.at):
		return query(text) != ""
	case isSecretAnnotation(s.at):
		return true
	case s.at.inInstance():
		return slices.Contains(secretKeys, s.at.key())
	case s.at.ends("metadata", "annotations", "kubevirt.io/ignitiondata"):
		return true
	case s.at.begins("spec", "dataVolumeTemplates", "[]", "spec", "source", "*"):
		return s.at.ends("extraHeaders", "[]") || s.at.ends("url") && hasCredentials(text)
	}
	return false
}

func isHeader(at path) bool { return at.inInstance() && at.ends("httpHeaders", "[]", "value") }

func isProbePath(at path) bool { return at.inInstance() && at.ends("httpGet", "path") }

func query(text string) string {
	_, query, _ := strings.Cut(text, "?")
	return query
}

func isSecretAnnotation(at path) bool {
	key := strings.TrimSuffix(strings.ToLower(at.key()), "s")
	return at.ends("metadata", "annotations", "*") && slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(key, ending) })
}

// hasCredentials reports whether a URL has a user, or a query or parameters, which may be a
// signature.
func hasCredentials(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" {
		return true
	}
	_, parameters, _ := strings.Cut(u.Path, ";")
	return strings.Contains(parameters, "=")
}

func isIdentity(s *site) bool {
	_, isString := s.value.(string)
	within := s.at[len(instance):]
	return isString && slices.ContainsFunc(identities, func(steps []string) bool { return within.is(steps...) })
}

// withholdCopies makes secrets of all values that contain a secret. Text that cannot become a
// parameter must not contain one.
func (d *draft) withholdCopies() error {
	type secret struct {
		text string
		word bool
	}
	traced := map[secret]bool{}
	for _, s := range d.sites {
		if one := (secret{s.text(), s.commonWord}); s.class == Secret && !traced[one] {
			traced[one] = true
			d.finder.add(s)
		}
	}
	if len(d.finder.traces) > maxSecrets {
		return errTooManySecrets
	}
	for _, s := range d.sites {
		if found := d.copied(s); found != nil {
			s.class, s.commonWord = Secret, found.commonWord
		}
	}
	return d.checkFixedText()
}

// copied returns the secret that a site contains, if the site can become a parameter.
func (d *draft) copied(s *site) *site {
	switch {
	case s.class == Secret, s.class == Identity, s.isFixed(), s.at.is("apiVersion"), s.at.is("kind"):
		return nil
	}
	return d.finder.search(s.text(), false)
}

// isFixed reports whether a site cannot become a parameter.
func (s *site) isFixed() bool { return s.at.is("metadata", "generateName") || isLarge(s.value) }

// checkFixedText checks that text that cannot become a parameter contains no secret: keys, labels,
// the name and large numbers.
func (d *draft) checkFixedText() error {
	v := visitor{scalar: func(path, any) error { return nil }, key: func(parent path, key string) error {
		if !IsFreeFormKey(parent.key(), key) {
			return nil
		}
		return d.checkNoSecret(key, "a key in %s", parent)
	}}
	if err := v.walk(nil, d.tree); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(d.labels)) {
		if err := d.checkNoSecret(d.labels[key], "%s", path{{key: "metadata"}, {key: "labels"}, {key: key}}); err != nil {
			return err
		}
	}
	for _, s := range d.sites {
		if s.isFixed() && s.class != Secret && s.class != Identity {
			if err := d.checkNoSecret(s.text(), "%s, which cannot be a parameter,", s.at); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNoSecret checks that a text contains no secret. The error names the text by a format and a
// path, without secrets.
func (d *draft) checkNoSecret(text, what string, at path) error {
	found := d.finder.search(text, true)
	if found == nil {
		return nil
	}
	return fmt.Errorf(what+" contains the secret in %s: change one of them", d.shown(at), d.shown(found.at))
}

// shown returns a path for messages, without secrets in its keys.
func (d *draft) shown(at path) string {
	for _, s := range at {
		if _, found := d.finder.Find(s.key, true); found {
			return "a field with a secret in its path"
		}
	}
	return orRoot(at)
}

// secrets returns the texts that must not occur elsewhere: of a probe's path the query, and with
// base64 also the decoded text.
func (s *site) secrets() []string {
	text := s.text()
	if isProbePath(s.at) {
		return []string{query(text)}
	}
	if decoded, err := base64.StdEncoding.DecodeString(squeezed(text)); err == nil && strings.HasSuffix(s.at.key(), "Base64") {
		return []string{text, string(decoded)}
	}
	return []string{text}
}
