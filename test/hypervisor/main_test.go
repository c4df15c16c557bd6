package hypervisor

import (
	"fmt"
	"os"
	"testing"
)

// victimVariable makes the test binary a process that runs a domain, prints the folder and the
// process ids, and waits to be killed.
const victimVariable = "VIRTWRIGHT_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		if err := victim(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func victim() error {
	d, err := start()
	if err != nil {
		return err
	}
	if err := d.DefineValidated(d.URI, idle("victim")); err != nil {
		return err
	}
	if _, err := d.Virsh("start", "victim", "--paused"); err != nil {
		return err
	}
	pid, err := d.DomainPID("victim")
	if err != nil {
		return err
	}
	fmt.Println(d.Dir, d.PID(), pid)
	select {}
}
