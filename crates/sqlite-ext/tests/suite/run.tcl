# Runs one file of SQLite's tests on the file system that shim.c chooses. `open` reaches what lies in
# the image, but commands that are written in C open files of the host, so those are written in Tcl.
# usage: testfixture run.tcl FILE.test [OPTION...]

proc hexio_read {name offset count} {
    set file [open $name rb]
    seek $file $offset
    binary scan [read $file $count] H* digits
    close $file
    return [string toupper $digits]
}

proc hexio_write {name offset digits} {
    set bytes [binary format H* [string map {" " "" "\n" ""} $digits]]
    set file [open $name r+b]
    seek $file $offset
    puts -nonewline $file $bytes
    close $file
    return [string length $bytes]
}

rename md5file md5file_of_host
proc md5file {name args} {
    file copy -force $name md5.bin
    set sum [md5file_of_host md5.bin {*}$args]
    file delete md5.bin
    return $sum
}

load [file join [file dirname [info nameofexecutable]] libshim.so] Varvesuite
rename glob glob_of_host
proc glob {args} {
    set found [list]
    catch { set found [glob_of_host -nocomplain {*}$args] }
    set names [image_names]
    foreach pattern $args {
        set pattern [string map [list "[pwd]/" ""] $pattern]
        if {[string match -* $pattern] || [string match */* $pattern]} continue
        foreach name [lsort -unique $names] {
            if {[string match $pattern $name]} { lappend found $name }
        }
    }
    if {[llength $found] == 0 && "-nocomplain" ni $args} { error "no files matched glob pattern" }
    return $found
}

set argv0 [lindex $argv 0]
set argv [lrange $argv 1 end]
source $argv0
