package webhooks

import "time"

// seconds times n calls of f.
func seconds(n int, f func()) float64 {
	began := time.Now()
	for range n {
		f()
	}
	return time.Since(began).Seconds()
}
