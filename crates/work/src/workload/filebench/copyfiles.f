# Copies each file of one set into another one.
set $nfiles=500000
set $dirwidth=100
set $filesize=4k
set $iosize=1m
set $nthreads=1

define fileset name=source,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize,prealloc=100,readonly
define fileset name=target,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize

define process name=maker,instances=1
{
  thread name=maker,instances=$nthreads
  {
    flowop openfile name=open,filesetname=source,fd=1,opennext
    flowop readwholefile name=read,iosize=$iosize,fd=1
    flowop createfile name=make,filesetname=target,fd=2
    flowop writewholefile name=write,iosize=$iosize,srcfd=1,fd=2
    flowop closefile name=close-target,fd=2
    flowop closefile name=close-source,fd=1
  }
}

run 86400
