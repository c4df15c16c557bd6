package hypervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Virsh runs virsh on the QEMU driver and returns what it printed.
func (d *Daemon) Virsh(args ...string) (string, error) { return d.virsh(d.URI, args...) }

// DefineValidated defines a domain at URI or TestURI after libvirt has checked it against its
// schema, and asks the driver whether it likes it.
func (d *Daemon) DefineValidated(uri, xml string) error {
	file, err := d.File("*.xml", []byte(xml))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }()
	_, err = d.virsh(uri, "define", "--validate", file)
	return err
}

// File writes a file of the daemon's account to its folder. The name is random where the pattern
// has a star, as os.CreateTemp has it.
func (d *Daemon) File(pattern string, content []byte) (string, error) {
	file, err := os.CreateTemp(d.Dir, pattern)
	if err == nil {
		_, err = file.Write(content)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return "", fmt.Errorf("cannot write a file of the daemon: %w", err)
	}
	return file.Name(), d.Own(file.Name())
}

func (d *Daemon) virsh(uri string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	out, err := run(d.Command(ctx, "virsh", append([]string{"-q", "-c", uri}, args...)...), "")
	if err != nil {
		return out, fmt.Errorf("cannot run virsh %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(out), nil
}

// validate checks a domain against libvirt's schema, which needs no daemon.
func validate(xml string) error {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	if _, err := run(exec.CommandContext(ctx, "virt-xml-validate", "-", "domain"), xml); err != nil {
		return fmt.Errorf("cannot accept the domain: %w", err)
	}
	return nil
}

// run runs a command; the error carries what it said.
func run(cmd *exec.Cmd, stdin string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if said := strings.TrimSpace(stderr.String()); err != nil && said != "" {
		err = errors.Join(errors.New(said), err)
	}
	return stdout.String(), err
}
