// Package docs checks what the documentation shows, and draws its pictures. Its tests fail when an
// example, a link or a picture is out of date; make pictures draws the pictures again.
package docs
