# Makes files and writes them whole, until all of the set are there; filesize=0 makes empty ones.
set $nfiles=1000000
set $dirwidth=100
set $filesize=4k
set $iosize=1m
set $nthreads=1

define fileset name=files,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize

define process name=maker,instances=1
{
  thread name=maker,instances=$nthreads
  {
    flowop createfile name=make,filesetname=files,fd=1
    flowop writewholefile name=write,iosize=$iosize,fd=1
    flowop closefile name=close,fd=1
  }
}

run 86400
